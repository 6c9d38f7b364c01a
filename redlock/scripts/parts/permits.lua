-- free_permits(lock) is how many permits of a semaphore are free, and a time before which no other one
-- becomes free by itself. It drops those whose leases are over. A permit is kept as the hold of a reader. The
-- table lock is that of load_state.
local function free_permits(lock)
  if lock.readers > 0 and lock.readers_end <= lock.now then
    local ends = math.huge
    for fields, holds in reader_holds(lock.key) do
      local _, first = drop_readers(lock, fields, holds)
      ends = math.min(ends, first)
    end
    lock.readers_end = ends < math.huge and ends or 0
  end
  return lock.permits - lock.readers, lock.readers > 0 and lock.readers_end or math.huge
end
