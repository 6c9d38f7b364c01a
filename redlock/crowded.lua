-- crowded(lock, most) says that there are most readers, and no place for one more. A part of them is looked at
-- once a second, for some whose leases are over: the field dr has when, and how far.
local function crowded(lock, most)
  if not most or lock.readers < most then return false end
  local last, at = string.match(redis.call('HGET', lock.key, 'dr') or '', '^(%d+) ?(%d*)$')
  if (tonumber(last or '') or 0) + 1000 > lock.now then return true end
  local bytes, stop = 0, false
  for fields, holds, seen in reader_holds(lock.key, 0, tonumber(at or '')) do
    drop_readers(lock, fields, holds)
    at = seen
    stop, bytes = long_enough(bytes, holds)
    if stop then break end
  end
  redis.call('HSET', lock.key, 'dr', lock.now .. ' ' .. (stop and at or 0))
  return lock.readers >= most
end
