-- free_permits(lock) is how many permits of a semaphore are free, and a time before which no other one
-- becomes free by itself. It drops those whose leases are over. A permit is kept as the hold of a reader. The
-- table lock is that of load_state.
local function free_permits(lock)
  local ends = read_until(lock)
  return lock.permits - lock.readers, ends or math.huge
end
