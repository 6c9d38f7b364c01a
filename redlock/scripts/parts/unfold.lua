-- unfold(key, fence, ids, owner) turns a plain lock into a hash with the same hold. It returns the reply of
-- TIME: the script goes by that clock from now on. In the last millisecond of a lease the key is still there,
-- so the hash lives long enough for the script to read it.
--
-- The server may stand still between any two commands, and before Redis 7.2 its clock goes on meanwhile. If
-- the clock were read before the PTTL, the lease would be cut short. And the expiry is set as a time to live,
-- because a moment in the past would delete the key.
--#include becomehash.lua
local function unfold(key, fence, ids, owner)
  local left = redis.call('PTTL', key)
  local clock = redis.call('TIME')
  local expiry = clock[1] * 1000 + math.floor(clock[2] / 1000) + left
  become_hash(key, math.max(left, 100))
  local hold = table.concat({expiry, 1, fence, math.floor(fence / 1000), '-', ids}, ' ')
  redis.call('HSET', key, 'v', '1', 'o', owner, 'w', hold)
  redis.call('PEXPIRE', key, math.max(left, 100))
  return clock
end
