-- break ends all holds of a lock, for people who know that the holder is no more.
--
-- KEYS  1  the lock
--       2  the fence of its slot; left out as in release.lua
-- ARGV  1  proxy
--       2  PUBLISH or SPUBLISH
--       3  what becomes of the lock, as in release.lua; offer if KEYS has no fence
--       4  request id; or "" to end every hold, also one that came after the request
--       5  the name of the fence's key, if KEYS does not have it
-- Reply 0: the lock was free
--       1: it is free now
--       {1, id, fence, ttl ms}: it was ended, and granted to the waiter id of this proxy
--       -1: some readers are gone; to be sent again for the others
-- Effects: all holds go, what rests too, and the next fence is higher than any of theirs. Proxies that kept
--       them alive are told. The first waiter is woken or gets the lock. Sent again it may end the next hold,
--       but none that its own proxy has asked for since.
local key, fence_key = KEYS[1], KEYS[2]
local me, publish, after, id = ARGV[1], ARGV[2], ARGV[3], ARGV[4] or ''
local fence_name = ARGV[5] or fence_key
--#include plain.lua
--#include now.lua
--#include meant.lua
local plain_fence, plain_ids, plain_owner = read_plain(redis.call('MGET', key)[1])
local clock = redis.call('TIME')
if plain_fence and id ~= '' and not meant(id, plain_fence, plain_ids) then return 0 end
if plain_fence then
  --#include unfold.lua
  clock = unfold(key, plain_fence, plain_ids, plain_owner)
end
local now, from = in_ms(clock)
local version, owner, writer, packed = unpack(redis.pcall('HMGET', key, 'v', 'o', 'w', 's'))
--#include islock.lua
--#include foreign.lua
if not is_lock(version) then return foreign(key) or 0 end
--#include hold.lua
--#include keeper.lua
--#include keeperchannel.lua
--#include state.lua
--#include queue.lua
--#include offer.lua
--#include readers.lua
--#include livereaders.lua
--#include lastfence.lua
--#include allowwrites.lua
--#include endholds.lua
--#include fence.lua
--#include passon.lua
local lock = load_state({key = key, version = version, fence_key = fence_key, clock = clock, now = now,
  from = from, me = me, publish = publish}, packed, writer)
local had_readers = lock.readers > 0
local broken, more = end_holds(lock, writer, fence_key, fence_name, function(fence, hold, at)
  return id == '' or meant(id, fence, hold, at)
end)
if more then
  save(lock)
  return -1
end
if not broken then
  if had_readers and lock.readers == 0 then
    pass_on(lock, read_until(lock), owner, false)
  else
    save(lock)
  end
  return 0
end
if after == 'tell' then redis.call(publish, key, 'broken') end
return pass_on(lock, read_until(lock), owner, after ~= 'offer')
