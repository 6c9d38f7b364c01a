-- permits.lua says how many permits of a semaphore are free. The table lock is that of load_state.
--
-- A permit is kept as the hold of a reader. The field pe of the lock is a time until which none of them ends:
-- so most requests need not look at each of them.

-- free_permits(lock) is how many permits are free, and a time before which no other one becomes free by
-- itself. It drops those whose leases are over.
local function free_permits(lock)
  local ends = lock.readers == 0 and math.huge or tonumber(redis.call('HGET', lock.key, 'pe') or 0)
  if ends <= lock.now then
    ends = math.huge
    for fields, holds in reader_holds(lock.key) do
      for _, hold in ipairs(holds) do
        local expiry = tonumber(string.match(hold, '^%d+'))
        if expiry > lock.now then ends = math.min(ends, expiry) end
      end
      drop_readers(lock, fields, holds)
    end
    -- A full Redis may refuse this, and then the next request looks again.
    if ends < math.huge then redis.pcall('HSET', lock.key, 'pe', string.format('%d', ends)) end
  end
  return lock.permits - lock.readers, ends
end

-- ends_with(lock, expiry) is what is to be written if one more permit is taken, until expiry: the field pe
-- and its value. lock.readers must not count that permit yet.
local function ends_with(lock, expiry)
  local ends = lock.readers > 0 and tonumber(redis.call('HGET', lock.key, 'pe')) or expiry
  return 'pe', string.format('%d', math.min(ends, expiry))
end
