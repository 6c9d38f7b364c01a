-- detach frees a hold whole, if it still has this keeper and nobody else has asked for it since.
--
-- KEYS  1 the lock   2 the fence of its slot; or none, as of release.lua
-- ARGV  1 token   2 keeper   3 proxy   4 PUBLISH or SPUBLISH   5 what becomes of the lock, as
--       release.lua says
-- Reply 1 released; 0 the keeper has nothing here; {1, id, fence, ttl ms}: released, and
--       granted to the waiter id of this proxy
-- Effects the hold goes, or only its keeper; who waits first is woken or gets the lock. Sent
--       again it does nothing
local key, fence_key = KEYS[1], KEYS[2]
local token, keeper, me, publish, after = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
--#include look.lua
--#include now.lua
if look(key) ~= 'hash' then return 0 end
local s = redis.call('HMGET', key, 'o', 'w', 's', 'r:' .. token)
local clock = redis.call('TIME')
local now, from = in_ms(clock)
--#include hold.lua
local field, hold = 'r:' .. token, s[4]
if s[1] == token then
  field, hold = 'w', s[2]
end
if not hold then return 0 end
local e, n, f, since, kept, ids, note = parse_hold(hold)
if e <= now or bare(kept) ~= keeper then return 0 end
if kept ~= keeper then
  --#include evenfull.lua
  even_full(key)
  redis.call('HSET', key, field, pack_hold(e, n, f, since, '-', ids, note))
  return 1
end
--#include state.lua
--#include queue.lua
--#include readers.lua
--#include livereaders.lua
--#include passon.lua
local lock = load_state({key = key, fence_key = fence_key, clock = clock, now = now, from = from,
  me = me, publish = publish}, s[3], s[2])
if field ~= 'w' then
  redis.call('HDEL', key, field)
  without(lock, e)
end
if after == 'tell' then redis.call(publish, key, keeper) end
return pass_on(lock, s[1], after ~= 'offer')
