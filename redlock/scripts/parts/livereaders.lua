-- livereaders.lua is who reads a lock. The table lock is that of load_state.

-- drop_readers(lock, fields, holds) drops those of these readers whose leases are over. It returns when the last
-- lease of the others ends, 0: there are none. but, if given, is one that is not looked at.
local function drop_readers(lock, fields, holds, but)
  local over, latest = {}, 0
  for i, hold in ipairs(holds) do
    local e = tonumber(string.match(hold, '^%d+'))
    if e <= lock.now then
      over[#over + 1] = fields[i]
    elseif fields[i] ~= but then
      latest = math.max(latest, e)
    end
  end
  if #over > 0 then redis.call('HDEL', lock.key, unpack(over)) end
  lock.readers = lock.readers - #over
  return latest
end

-- read_until(lock, but) is until when somebody reads at least; nil: nobody does. but, if given, is a token that
-- does not count. Readers are only looked at when that is not known, and no more of them than it takes; those
-- whose leases are over are dropped then. Until they are looked at, the lock counts them.
local function read_until(lock, but)
  but = but and 'r:' .. but
  local own = but and redis.call('HGET', lock.key, but)
  own = tonumber(string.match(own or '', '^%d+') or 0)
  if lock.readers == 0 then return nil end
  if lock.readers_end > math.max(lock.now, own) then return lock.readers_end end
  local latest = 0
  for fields, holds in reader_holds(lock.key, lock.readers) do
    latest = drop_readers(lock, fields, holds, but)
    if latest > 0 then break end
  end
  if latest == 0 then lock.readers = own > lock.now and 1 or 0 end
  lock.readers_end = math.max(latest, own > lock.now and own or 0)
  return latest > 0 and latest or nil
end

-- without(lock, e) notes that a reader has gone, whose lease ended at e.
local function without(lock, e)
  lock.readers = lock.readers - 1
  if lock.readers == 0 or tonumber(e) >= lock.readers_end then lock.readers_end = 0 end
end
