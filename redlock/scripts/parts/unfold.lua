-- unfold(key, fence, ids, owner) makes a hash of a plain lock that has these. It returns the reply of TIME,
-- which is the time from now on. In the last millisecond of a lease the key is still there, so the hash lives
-- long enough for the script to read it.
--
-- The server may stand still between any two commands, and before Redis 7.2 its clock goes on meanwhile. So
-- the clock is read behind the PTTL, or the lease would be cut short, and the time to live is a relative one:
-- a moment that had passed would delete the key.
--
-- The source of a slot that moves lets no script name a key that is not there: behind a DEL it could not make
-- the hash. There the key becomes one in a single command, by RESTORE of a hash whose field v is 1 (type 4 of
-- RDB files, version 6, and their CRC-64).
local function unfold(key, fence, ids, owner)
  local left = redis.call('PTTL', key)
  local clock = redis.call('TIME')
  local e = clock[1] * 1000 + math.floor(clock[2] / 1000) + left
  local moves = redis.pcall('TYPE', key .. '?').err
  redis.call(unpack(moves and
    {'RESTORE', key, 100, '\004\001\001v\0011\006\000?\172\144y1\167Z%', 'REPLACE'} or {'DEL', key}))
  local hold = table.concat({e, 1, fence, math.floor(fence / 1000), '-', ids}, ' ')
  redis.call('HSET', key, 'v', '1', 'o', owner, 'w', hold)
  redis.call('PEXPIRE', key, math.max(left, 100))
  return clock
end
