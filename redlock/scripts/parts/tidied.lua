-- tidied(lock, field) says that a script has looked for waiters (field d) or readers (dr) that have gone,
-- within the last second; and where the next look should begin. The field has the time of the last look, and
-- that place.
local function tidied(lock, field)
  local at, place = string.match(redis.call('HGET', lock.key, field) or '', '^(%d+) ?(%d*)$')
  return (tonumber(at or '') or 0) + 1000 > lock.now, tonumber(place or '')
end
