-- break ends whatever holds a lock, for people who know that the holder is no more.
--
-- KEYS  1 the lock   2 the fence of its slot; or none, if only one of the two is at this node: then 3 is offer
-- ARGV  1 proxy   2 PUBLISH or SPUBLISH   3 what becomes of the lock, as release.lua says
--       4 request id, or "": whatever holds it is meant   5 the name of the fence's key, if it is none of
--       KEYS
-- Reply 0 it was free; 1 it is; {1, id, fence, ttl ms}: it was, and is granted to the waiter id of
--       this proxy; -1 some readers are gone, and it is to be sent again for the others
-- Effects all holds go; the next fence is higher than any of theirs; proxies that kept
--       them alive are told; who waits first is woken or gets the lock. Sent again it may break the next hold,
--       but none that its proxy has asked for since
local key, fence_key = KEYS[1], KEYS[2]
local me, publish, after, id = ARGV[1], ARGV[2], ARGV[3], ARGV[4] or ''
local fence_name = ARGV[5] or fence_key
--#include look.lua
--#include now.lua
--#include meant.lua
local kind, plain, plain_ids, owner = look(key)
if kind == 'none' then return 0 end
local clock = redis.call('TIME')
if kind ~= 'plain' and kind ~= 'hash' then
  --#include foreign.lua
  return foreign(key, kind)
end
if plain and id ~= '' and not meant(id, plain, plain_ids) then return 0 end
if plain then
  --#include unfold.lua
  clock = unfold(key, plain, plain_ids, owner)
end
local now, from = in_ms(clock)
local s = redis.call('HMGET', key, 'v', 'o', 'w', 's')
if s[1] ~= '1' then
  --#include foreign.lua
  return foreign(key, kind)
end
local writer = s[3]
--#include hold.lua
--#include keeperchannel.lua
--#include state.lua
--#include queue.lua
--#include readers.lua
--#include livereaders.lua
--#include passon.lua
local lock = load_state({key = key, fence_key = fence_key, clock = clock, now = now, from = from,
  me = me, publish = publish}, s[4], writer)
-- told has for each proxy the keepers of its holds that are broken.
local broken, highest, told = false, 0, {}
local function broke(hold)
  -- parse_hold would copy the requests and the META of each of a thousand readers.
  local e, f, kept, ids_at = string.match(hold, '^(%d+) %d+ (%d+) %d+ (%S+) ()')
  if tonumber(e) <= now then return true end
  if id ~= '' and not meant(id, f, hold, ids_at) then return false end
  broken, highest = true, math.max(highest, tonumber(f))
  if kept ~= '-' then
    local proxy = string.match(kept, '^(.*):')
    told[proxy] = told[proxy] or {}
    table.insert(told[proxy], bare(kept))
  end
  return true
end
if writer and not broke(writer) then return 0 end
local read, more = lock.readers > 0, false
for fields, holds, _, enough in reader_holds(key, lock.readers) do
  local gone = {}
  for i, hold in ipairs(holds) do
    if broke(hold) then gone[#gone + 1] = fields[i] end
  end
  if #gone > 0 then
    redis.call('HDEL', key, unpack(gone))
    lock.readers, lock.readers_end = lock.readers - #gone, 0
    more = enough and lock.readers > 0
    if more then break end
  end
end
for proxy, keepers in pairs(told) do
  redis.call('PUBLISH', keeper_channel(fence_name, proxy), 'broken ' .. table.concat(keepers, ' '))
end
if fence_key then
  local last = tonumber(string.match(redis.call('GETRANGE', fence_key, 0, 15), '^%d*')) or 0
  if last < highest then
    --#include evenfull.lua
    even_full(key)
    redis.call('SETRANGE', fence_key, 0, string.format('%.0f', highest))
  end
end
if more then
  save(lock)
  return -1
end
if not broken then
  if read and lock.readers == 0 then
    pass_on(lock, s[2], false)
  else
    save(lock)
  end
  return 0
end
if after == 'tell' then redis.call(publish, key, 'broken') end
return pass_on(lock, s[2], after ~= 'offer')
