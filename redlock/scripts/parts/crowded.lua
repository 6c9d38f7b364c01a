-- crowded(lock, most) says that there are most readers, and no place for one more. A part of them is looked at
-- once a second, for some whose leases are over: the field dr has when, and how far.
local function crowded(lock, most)
  if not most or lock.readers < most then return false end
  local last, at = string.match(redis.call('HGET', lock.key, 'dr') or '', '^(%d+) ?(%d*)$')
  if (tonumber(last or '') or 0) + 1000 > lock.now then return true end
  local next_at = 0
  for fields, holds, seen, enough in reader_holds(lock.key, 0, tonumber(at or '')) do
    drop_readers(lock, fields, holds)
    if enough then
      next_at = seen
      break
    end
  end
  redis.call('HSET', lock.key, 'dr', lock.now .. ' ' .. next_at)
  return lock.readers >= most
end

-- too_many_readers(lock) is what one reader more is told.
local function too_many_readers(lock)
  return {err = 'QUEUEFULL ' .. lock.readers ..
    ' clients share this lock already: try again later, or raise lock-max-readers'}
end
