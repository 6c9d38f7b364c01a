-- crowded(lock, most) says that the lock has no room for one more reader, because there are most already.
-- Before that it drops readers whose leases are over: it looks at a part of them, at most once a second.
local function crowded(lock, most)
  if lock.readers < most then return false end
  local done, at = tidied(lock, 'dr')
  if done then return true end
  local next_at = 0
  for fields, holds, looked_at, enough in reader_holds(lock.key, at) do
    drop_readers(lock, fields, holds)
    next_at = enough and looked_at or 0
    if enough then break end
  end
  -- A full Redis may refuse this, and then the next request looks again.
  redis.pcall('HSET', lock.key, 'dr', lock.now .. ' ' .. next_at)
  return lock.readers >= most
end
