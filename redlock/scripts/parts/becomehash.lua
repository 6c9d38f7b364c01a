-- become_hash(key, left) deletes a lock, to make room for a hash.
--
-- While a slot moves, its source lets no script name a key that is not there, so after a DEL the hash could
-- not be made. There one command, RESTORE, replaces the key by a hash whose field v is 1 (type 4 of RDB
-- files, version 6, with their CRC-64), which lives for left ms. A server that is full refuses RESTORE, but
-- not after a write: PEXPIRE is one, and changes nothing.
local function become_hash(key, left)
  local moves = redis.pcall('TYPE', key .. '?').err and redis.call('PEXPIRE', key, left)
  redis.call(unpack(moves and
    {'RESTORE', key, left, '\004\001\001v\0011\006\000?\172\144y1\167Z%', 'REPLACE'} or {'DEL', key}))
end
