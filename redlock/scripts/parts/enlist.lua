-- enlist(lock, field, expiry) counts one more reader, or permit, whose lease ends then, and adds it to the
-- list of readers (see readers.lua): it returns the fields and values that are to be written. If more than
-- half of the list are readers that have gone, the list is written anew first.
local function enlist(lock, field, expiry)
  local listed, part = tonumber(redis.call('HGET', lock.key, 'm') or 0), ''
  if listed >= 2 * lock.readers + 16 then
    local fields = {}
    for some in reader_holds(lock.key) do
      for _, name in ipairs(some) do fields[#fields + 1] = name end
    end
    for i = 0, math.ceil(listed / 16) - 1 do
      local names = table.concat(fields, ' ', 16 * i + 1, math.min(16 * i + 16, #fields))
      if names == '' then
        redis.call('HDEL', lock.key, 'm:' .. i)
      else
        redis.call('HSET', lock.key, 'm:' .. i, names .. ' ')
      end
    end
    listed = #fields
  end
  local bound = lock.permits and lock.readers > 0 and math.min or math.max
  lock.readers, lock.readers_end = lock.readers + 1, bound(lock.readers_end, expiry)
  local at = 'm:' .. math.floor(listed / 16)
  if listed % 16 > 0 then part = redis.call('HGET', lock.key, at) end
  return 'm', listed + 1, at, part .. field .. ' '
end
