-- detach frees a hold whole, however often it was counted up, if it still has this keeper and no other client
-- has asked for it since.
--
-- KEYS  1  the lock
--       2  the fence of its slot; left out as in release.lua
-- ARGV  1  token
--       2  keeper
--       3  proxy
--       4  PUBLISH or SPUBLISH
--       5  what becomes of the lock, as in release.lua
-- Reply 1: released
--       0: the keeper has no hold here
--       {1, id, fence, ttl ms}: released, and granted to the waiter id of this proxy
-- Effects: the hold goes, or rests as after release.lua, or only its keeper goes; the first waiter is woken
--       or gets the lock. Sent again it does nothing.
local key, fence_key = KEYS[1], KEYS[2]
local token, keeper, me, publish, after = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
--#include look.lua
--#include ownhold.lua
--#include now.lua
if look(key) ~= 'hash' then return 0 end
local field, hold, packed, owner, writer = own_hold(key, token)
local clock = redis.call('TIME')
local now, from = in_ms(clock)
--#include hold.lua
--#include keeper.lua
if not hold then return 0 end
local expiry, count, fence, since, kept, ids, note = parse_hold(hold)
if expiry <= now or keeper_of(kept) ~= keeper then return 0 end
if kept ~= keeper then
  --#include allowwrites.lua
  allow_writes(key)
  redis.call('HSET', key, field, pack_hold(expiry, count, fence, since, '-', ids, note))
  return 1
end
--#include state.lua
--#include queue.lua
--#include readers.lua
--#include livereaders.lua
--#include fence.lua
--#include passon.lua
--#include rest.lua
local lock = load_state({key = key, version = redis.call('HGET', key, 'v'), fence_key = fence_key,
  clock = clock, now = now, from = from, me = me, publish = publish}, packed, writer)
if field ~= 'w' then
  redis.call('HDEL', key, field)
  reader_left(lock, expiry)
end
rest(lock, field, fence, ids, note)
if after == 'tell' then redis.call(publish, key, keeper) end
return pass_on(lock, read_until(lock), owner, after ~= 'offer')
