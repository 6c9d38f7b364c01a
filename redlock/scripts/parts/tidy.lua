-- tidy(lock, holes) drops waiters that are dead or whose time is over, at most once a second, or if the queue
-- is mostly holes. These arise where clients come and go behind one that stays. Of at most 200 waiters it
-- looks at all, and moves those who stay together. Of more it looks at a thousand places, and goes on the
-- next time where it stopped.
local function tidy(lock, holes)
  local done, next_place = tidied(lock, 'd')
  if done and not holes then return end
  local places, short, offered = {}, lock.waiters <= 200, lock.head
  if short then
    for _, field in ipairs(redis.call('HKEYS', lock.key)) do
      local place = string.match(field, '^q:(%d+)$')
      if place then places[#places + 1] = tonumber(place) end
    end
    table.sort(places)
    next_place = lock.head
  else
    local from = math.max(next_place or 0, lock.head)
    if from >= lock.tail then from = lock.head end
    next_place = math.min(from + 1000, lock.tail)
    for place = from, next_place - 1 do places[#places + 1] = place end
  end
  for _, place in ipairs(places) do
    local entry = redis.call('HGET', lock.key, 'q:' .. place)
    local id, proxy, deadline = string.match(entry or '', '^%a (%S+) (%S+) (%d+)')
    if id and not is_alive(lock, proxy, tonumber(deadline)) then
      drop(lock, place, id)
    elseif short then
      if place > next_place then
        redis.call('HDEL', lock.key, 'q:' .. place)
        redis.call('HSET', lock.key, 'q:' .. next_place, entry, 'i:' .. id, next_place)
      end
      next_place = next_place + 1
      if place < lock.offered then offered = next_place end
    end
  end
  if short then lock.tail = next_place end
  if short and lock.offered > 0 then lock.offered = offered end
  -- A full Redis may refuse this, and then the next request looks again.
  redis.pcall('HSET', lock.key, 'd', lock.now .. ' ' .. next_place)
end
