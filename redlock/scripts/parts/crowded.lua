-- crowded(lock, most) says that there are most readers, and no place for one more. A part of them is looked at,
-- once a second, for some whose leases are over.
local function crowded(lock, most)
  if not most or lock.readers < most then return false end
  local done, at = tidied(lock, 'dr')
  if done then return true end
  local next_at = 0
  for fields, holds, seen, enough in reader_holds(lock.key, 0, at) do
    drop_readers(lock, fields, holds)
    if enough then
      next_at = seen
      break
    end
  end
  redis.call('HSET', lock.key, 'dr', lock.now .. ' ' .. next_at)
  return lock.readers >= most
end
