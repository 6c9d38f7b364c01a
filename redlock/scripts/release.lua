-- release frees what a token holds, or counts a re-entered hold down.
--
-- KEYS  1 the lock   2 the fence of its slot; or none, if only one of the two is at this node: then 6 is offer, and
--       what it was answered is noted with the lock, which stays for 20 s, free
-- ARGV  1 token   2 fence of the grant that is meant, or id that the proxy has given the request, or "": it is 3
--       3 request id, which its client may have named   4 proxy
--       5 PUBLISH or SPUBLISH   6 what becomes of the lock:
--       grant        who waits first gets it if it waits at this proxy, and is offered it if not
--       offer        nobody gets the lock by this: who waits first is offered it
--       tell         there is no queue: all who listen are told that the lock is free
--       tell-others  that too, but this proxy, which listens, knows
--       7 the fence that is meant, or if any is, that of the last grant to the token that the proxy knew of when
--       it made the request; or "", or none   8 the name of the fence's key, if it is none of KEYS
-- Reply 1 released; 0 still held, the count went down; nil: the token holds nothing
--       here; -1: its proxy has asked for the hold once more since, so it needs a new id; {1, id, fence, ttl ms}:
--       released, and granted to the waiter id of this proxy; of a hold that this proxy has kept alive {1, keeper}, or
--       {1, id, fence, ttl ms, keeper}
-- Effects the hold goes, or its count; who waits first is woken, or gets the lock. Sent
--       again it changes nothing and replies the same, until there have been 32 more in the slot, and never ends a
--       grant that its proxy has asked for since. Who got the lock by it is only told again until the lock has gone
--       on eight times more
local key, fence_key = KEYS[1], KEYS[2]
local token, want, id, me, publish, after = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local known, fence_name = ARGV[7], ARGV[8] or fence_key
--#include remember.lua
local held = redis.call('MGET', key)[1] -- which knows no hash

-- Most calls end here: the lock was granted and nothing more, and no copy of this request has run before, because
-- it would have freed that very grant.
if held and string.sub(held, 48) == token and string.sub(held, 13, 28) == known then
  redis.call('DEL', key)
  remember(fence_key, ' ', id)
  return 1
end

local telling = after == 'tell' or after == 'tell-others' -- where there is no queue
if want == '' then want = id end
--#include plain.lua
--#include recall.lua
--#include meant.lua
local plain, plain_ids, owner = read_plain(held)
if plain and (want ~= plain or owner ~= token) then
  local before = recall(fence_key, id)
  if before then return before end
  if owner ~= token or not meant(want, plain, plain_ids) then return false end
end
if plain and not fence_key then -- a string has no place for a note
  --#include unfold.lua
  unfold(key, plain, plain_ids, owner)
elseif plain then
  redis.call('DEL', key)
  remember(fence_key, ' ', id)
  local listen = after == 'tell-others' and redis.pcall('PUBSUB', 'NUMSUB', key) -- which not every user may ask
  if after == 'tell' or listen and (listen.err or listen[2] > 1) then redis.call(publish, key, id) end
  return 1
end
local s = redis.pcall('HMGET', key, 'v', 'o', 'w', 's', 'u')
if s[1] ~= '1' then
  local kind = redis.call('TYPE', key)
  kind = kind.ok or kind
  if kind == 'none' then return recall(fence_key, id) or false end
  --#include foreign.lua
  return foreign(key, kind)
end
--#include now.lua
local clock = redis.call('TIME')
local now, from = in_ms(clock)
--#include hold.lua
--#include keeperchannel.lua
--#include overtaken.lua

local field, hold, u = 'w', s[3], s[5]
if s[2] ~= token then
  field = 'r:' .. token
  hold = redis.call('HGET', key, field)
end
local e, n, f, since, kept, ids, note
if hold then e, n, f, since, kept, ids, note = parse_hold(hold) end
local granted_only = hold and f == known and string.find(ids, '^%+[%w,]+$') -- so no copy of this request has run
if not granted_only then
  local wid = u and string.match(u, ' ' .. id .. '>([%w,]+)')
  if wid and s[3] then -- sent again
    local e, n, f, _, _, ids = parse_hold(s[3])
    if n == 1 and ids == '+' .. wid and e > now then return {1, wid, tonumber(f), e - from} end
  end
  local before = wid and 1 or recall(fence_key, id)
  if before then return before end
end
if not hold or e <= now then return false end
if not granted_only then
  if string.find(ids, id, 1, true) then return 0 end -- sent again, whatever fence the hold has by now
  if not meant(want, f, ids) then return false end
  if not telling and overtaken(want, ids) then return -1 end
end
if n > 1 then
  --#include evenfull.lua
  even_full(key)
  remember(fence_key, '-', id)
  redis.call('HSET', key, field, pack_hold(e, n - 1, f, since, kept, ids .. '-' .. id, note))
  return 0
end
local keeping = string.match(kept, '^(.*):') -- the proxy that keeps the hold alive
local keeper = keeping == me and bare(kept)
if keeping and not keeper then
  redis.call('PUBLISH', keeper_channel(fence_name, keeping), 'released ' .. bare(kept))
end
if telling then redis.call(publish, key, id) end
if not s[4] and fence_key then -- there is nobody else
  redis.call('DEL', key)
  remember(fence_key, ' ', id)
  return keeper and {1, keeper} or 1
end
--#include state.lua
--#include queue.lua
--#include readers.lua
--#include livereaders.lua
--#include passon.lua
local lock = load_state({key = key, fence_key = fence_key, clock = clock, now = now, from = from,
  me = me, publish = publish}, s[4], s[3])
if field ~= 'w' then
  redis.call('HDEL', key, field)
  without(lock, e)
end
local passed = pass_on(lock, s[2], after ~= 'offer', id, u)
remember(fence_key, ' ', id) -- behind what deletes, which is allowed when Redis is full
if not keeper then return passed end
if passed == 1 then return {1, keeper} end
passed[5] = keeper
return passed
