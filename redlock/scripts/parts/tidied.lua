-- tidied(lock, field) says that it was looked within the last second for waiters ("d") or readers ("dr") that have
-- gone, and where the next look is to begin. The fields have when, and where.
local function tidied(lock, field)
  local at, place = string.match(redis.call('HGET', lock.key, field) or '', '^(%d+) ?(%d*)$')
  return (tonumber(at or '') or 0) + 1000 > lock.now, tonumber(place or '')
end
