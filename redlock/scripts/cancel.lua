-- cancel takes back what one LOCK has done: its place in the queue, or its hold, or one count of the hold, or
-- that a reader became the writer. Or it ends all holds of a lock (BREAK), for people who know that the
-- holder is no more.
--
-- Of what one LOCK has done it takes nothing back that another client has been told of since:
--   the answer to another LOCK of the token gave a count that includes this one;
--   an UNLOCK was answered 0: the lock is still held;
--   CHECK said that the token holds the lock;
--   RENEW said so, and this is the last count.
-- Then the request is only marked as cancelled. Its effect goes once the LOCKs that were told of it are
-- cancelled too.
--
-- KEYS  1  the lock
--       2  the fence of its slot; left out as in release.lua
-- ARGV  1  token of the LOCK; or "" for BREAK
--       2  id of the LOCK; or that of the BREAK, or "" to end also a hold that came after the request
--       3  proxy
--       4  PUBLISH or SPUBLISH
--       5  what becomes of the lock, as in release.lua; offer if a BREAK has no fence in KEYS
--       6  for BREAK, the name of the fence's key, if KEYS does not have it
-- Reply 1: something was taken back, or marked; for BREAK the lock is free now
--       0: there was nothing
--       {1, id, fence, ttl ms}: taken back, and the lock was granted to the waiter id of this proxy
--       -1: BREAK has ended some readers; to be sent again for the others
-- Effects: what it takes back does not rest (ATLEAST), for nobody was told of it. Sent again it does nothing.
--       With BREAK all holds go, what rests too, and the next fence is higher than any of theirs. Proxies
--       that kept them alive are told. The first waiter is woken or gets the lock. Sent again it may end the
--       next hold, but none that its own proxy has asked for since.
local key, fence_key = KEYS[1], KEYS[2]
local token, id, me, publish, after, fence_name = unpack(ARGV, 1, 6)
local breaks = token == ''
-- The marks of requests (see hold.lua), and what they become when these are cancelled.
local cancelled = {['+'] = '!', ['^'] = '?', ['*'] = '&', ['='] = ''}
--#include plain.lua
--#include now.lua
--#include meant.lua
local plain_fence, plain_ids, plain_owner = read_plain(redis.call('MGET', key)[1])
if plain_fence and not breaks then
  if plain_owner ~= token or string.match(plain_ids, '%+([%w,]+)$') ~= id then return 0 end
  redis.call('DEL', key)
  if after == 'tell' then redis.call(publish, key, id) end
  return 1
end
if plain_fence and id ~= '' and not meant(id, plain_fence, plain_ids) then return 0 end
--#include unfold.lua
local clock = unfold(key, plain_fence, plain_ids, plain_owner)
local version, owner, writer, packed, shared, place =
  unpack(redis.pcall('HMGET', key, 'v', 'o', 'w', 's', 'r:' .. token, 'i:' .. id))
--#include islock.lua
if not is_lock(version) then
  --#include foreign.lua
  return breaks and foreign(key) or 0
end
local now, from = in_ms(clock)
--#include hold.lua
--#include allowwrites.lua
--#include state.lua
--#include queue.lua
--#include offer.lua
--#include readers.lua
--#include livereaders.lua
--#include enlist.lua
--#include fence.lua
--#include passon.lua
local lock = load_state({key = key, version = version, fence_key = fence_key, clock = clock, now = now,
  from = from, me = me, publish = publish, place = tonumber(place)}, packed, writer)
if breaks then
  --#include lastfence.lua
  --#include endholds.lua
  local had_readers = lock.readers > 0
  local broken, more = end_holds(lock, writer, fence_key, fence_name or fence_key, function(fence, hold, at)
    return id == '' or meant(id, fence, hold, at)
  end)
  if broken and not more and after == 'tell' then redis.call(publish, key, 'broken') end
  if broken and not more then return pass_on(lock, read_until(lock), owner, after ~= 'offer') end
  if not more and had_readers and lock.readers == 0 then
    pass_on(lock, read_until(lock), owner, false)
  else
    save(lock)
  end
  return more and -1 or 0
end
local writer_expiry = writer and tonumber(string.match(writer, '^%d+')) or 0
local done = 0
if lock.place then
  drop(lock, lock.place, id)
  done = 1
end
local field, hold = 'r:' .. token, shared
if owner == token and writer_expiry > now then
  field, hold = 'w', writer
end
local freed, reads_on = false, false
if hold then
  local expiry, count, fence, since, kept, ids, note = parse_hold(hold)
  local at = string.find(ids, id, 1, true)
  local mark = at and cancelled[string.sub(ids, at - 1, at - 1)]
  if expiry > now and mark then
    done = 1
    allow_writes(key)
    ids = string.sub(ids, 1, at - 2) .. mark .. string.sub(ids, mark == '' and at + #id or at)
    local renewed
    ids, renewed = string.gsub(ids, '=0000000000000000', '')
    -- What cancelled requests at the end of the list did is taken back: everything that anybody was told
    -- later has been cancelled too. But a renewal said that the hold lasts, so then the last count stays.
    local writes = field == 'w'
    while count > 0 do
      local others, last, fence_before = string.match(ids, '^(.*)([!?&])[%w,]+:?(%d*):?%d*$')
      if not last or last ~= '?' and count == 1 and renewed > 0 then break end
      ids = others
      if last ~= '?' then count = count - 1 end
      if last ~= '!' then -- the fence from before is the one that its client knows
        reads_on = writes
        fence = fence_before
      end
    end
    if renewed > 0 then ids = ids .. '=0000000000000000' end
    freed = count == 0
    if freed and writes then
      writer_expiry, reads_on = 0, false
    elseif freed then
      redis.call('HDEL', key, field)
      reader_left(lock, expiry)
    elseif reads_on then -- the writer is a reader again
      redis.call('HDEL', key, 'o', 'w')
      redis.call('HSET', key, 'r:' .. token, pack_hold(expiry, count, fence, since, kept, ids, note),
        enlist(lock, 'r:' .. token, expiry))
      owner, writer_expiry = false, 0
    else
      redis.call('HSET', key, field, pack_hold(expiry, count, fence, since, kept, ids, note))
    end
  end
end
if done == 0 then return 0 end
if writer_expiry <= now and (freed or lock.place or reads_on) then
  if after == 'tell' then redis.call(publish, key, id) end
  return pass_on(lock, read_until(lock), owner, after ~= 'offer')
end
if lock.place then
  -- Without waiters the key need not outlive the writer.
  if lock.waiters == 0 and lock.readers == 0 then lock.expires = writer_expiry end
  save(lock)
end
return 1
