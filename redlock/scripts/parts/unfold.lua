-- unfold(key, fence, ids, owner) turns a plain lock into a hash with the same hold; without a fence it is
-- none, and nothing is done. It returns the reply of TIME: the script goes by that clock from now on. In the
-- last millisecond of a lease the key is still there, so the hash lives long enough for the script to read
-- it.
--
-- The server may stand still between any two commands, and before Redis 7.2 its clock goes on meanwhile. If
-- the clock were read before the PTTL, the lease would be cut short. And the expiry is set as a time to live,
-- because a moment in the past would delete the key.
--
-- While a slot moves, its source lets no script name a key that is not there, so after a DEL the hash could
-- not be made. There one command, RESTORE, replaces the key by a hash whose field v is 1 (type 4 of RDB
-- files, version 6, with their CRC-64). A server that is full refuses RESTORE, but not after a write: PEXPIRE
-- is one, and changes nothing.
local function unfold(key, fence, ids, owner)
  if not fence then return redis.call('TIME') end
  local left = redis.call('PTTL', key)
  local clock = redis.call('TIME')
  local expiry = clock[1] * 1000 + math.floor(clock[2] / 1000) + left
  local moves = redis.pcall('TYPE', key .. '?').err and redis.call('PEXPIRE', key, math.max(left, 100))
  redis.call(unpack(moves and
    {'RESTORE', key, 100, '\004\001\001v\0011\006\000?\172\144y1\167Z%', 'REPLACE'} or {'DEL', key}))
  local hold = table.concat({expiry, 1, fence, math.floor(fence / 1000), '-', ids}, ' ')
  redis.call('HSET', key, 'v', '1', 'o', owner, 'w', hold)
  redis.call('PEXPIRE', key, math.max(left, 100))
  return clock
end
