-- crowded(lock, most, had) says that there are most readers, and no place for one more: had, if not false, is
-- what one leaves whose lease is over. They are looked at once a second at most, to see who is over.
local function crowded(lock, most, had)
  if not most or lock.readers < most or had and lock.readers == most and not lock.swept then return false end
  if not lock.swept and (tonumber(redis.call('HGET', lock.key, 'dr')) or 0) + 1000 <= lock.now then
    redis.call('HSET', lock.key, 'dr', lock.now)
    live_readers(lock, nil, true)
  end
  return lock.readers >= most
end
