-- livereaders.lua counts the readers of a lock. The table lock is that of load_state.

-- live_readers(lock, but, all) is how many readers there are, and when the last one's lease ends. They are
-- looked at one by one, and those whose lease is over dropped, only when the last one's may be: until then
-- some of those counted may be over. but, if given, is a token that does not count: then they are looked at,
-- as they are if all is.
local function live_readers(lock, but, all)
  if lock.readers == 0 or lock.readers_end > lock.now and not but and not all then
    return lock.readers, lock.readers_end
  end
  lock.swept = true
  local n, latest, own = 0, 0, 0
  local fields, holds = reader_holds(lock.key, lock.readers)
  for i, hold in ipairs(holds) do
    local e = tonumber(string.match(hold, '^%d+'))
    if e <= lock.now then
      redis.call('HDEL', lock.key, fields[i])
    elseif but and fields[i] == 'r:' .. but then
      own = e
    else
      n, latest = n + 1, math.max(latest, e)
    end
  end
  lock.readers, lock.readers_end = n + (own > 0 and 1 or 0), math.max(latest, own)
  return n, latest
end

-- without(lock, e) notes that a reader has gone, whose lease ended at e.
local function without(lock, e)
  lock.readers = lock.readers - 1
  if lock.readers == 0 or tonumber(e) >= lock.readers_end then lock.readers_end = 0 end
end
