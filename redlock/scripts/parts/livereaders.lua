-- livereaders.lua says who reads a lock. The table lock is that of load_state.

-- drop_readers(lock, fields, holds, but, ends) removes those of these readers whose leases are over. It
-- returns when the last lease of the others ends, or of permits the first; nil: no others are left. ends is
-- what it returned for other readers of the lock, which count too. The reader with the field but, if given,
-- is removed too when its lease is over, but does not count for the result.
local function drop_readers(lock, fields, holds, but, ends)
  local over, bound = {}, lock.permits and math.min or math.max
  for i, hold in ipairs(holds) do
    local expiry = tonumber(string.match(hold, '^%d+'))
    if expiry <= lock.now then
      over[#over + 1] = fields[i]
    elseif fields[i] ~= but then
      ends = bound(ends or expiry, expiry)
    end
  end
  if #over > 0 then redis.call('HDEL', lock.key, unpack(over)) end
  lock.readers = lock.readers - #over
  return ends
end

-- read_until(lock, but) is a time until which somebody reads the lock for certain; of a semaphore, one until
-- which no permit ends; nil: nobody reads. The hold of the token but, if given, does not count.
--
-- Mostly that is known (lock.readers_end). If not, readers are looked at until one is found whose lease goes
-- on; of a semaphore all. Those whose leases are over are removed then; until somebody looks, lock.readers
-- counts them.
local function read_until(lock, but)
  but = but and 'r:' .. but
  local own = but and redis.call('HGET', lock.key, but)
  own = tonumber(string.match(own or '', '^%d+') or 0)
  if lock.readers == 0 then return nil end
  if lock.readers_end > math.max(lock.now, own) then return lock.readers_end end
  local ends
  for fields, holds in reader_holds(lock.key) do
    ends = drop_readers(lock, fields, holds, but, ends)
    if ends and not lock.permits then break end
  end
  if not ends then lock.readers = own > lock.now and 1 or 0 end
  lock.readers_end = math.max(ends or 0, own > lock.now and own or 0)
  return ends
end
