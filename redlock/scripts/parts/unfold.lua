-- unfold(key, fence, ids, owner) makes a hash of a plain lock that has these. It returns the reply of TIME,
-- which is the time from now on. In the last millisecond of a lease the key is still there, so the hash lives
-- long enough for the script to read it.
--
-- The server may stand still between any two commands, and before Redis 7.2 its clock goes on meanwhile. So
-- the clock is read behind the PTTL, or the lease would be cut short, and the time to live is a relative one:
-- a moment that had passed would delete the key.
local function unfold(key, fence, ids, owner)
  local left = redis.call('PTTL', key)
  local clock = redis.call('TIME')
  local e = clock[1] * 1000 + math.floor(clock[2] / 1000) + left
  redis.call('DEL', key)
  local hold = table.concat({e, 1, fence, math.floor(fence / 1000), '-', ids}, ' ')
  redis.call('HSET', key, 'v', '1', 'o', owner, 'w', hold)
  redis.call('PEXPIRE', key, math.max(left, 100))
  return clock
end
