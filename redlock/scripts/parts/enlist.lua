-- enlist(lock, field) returns what is to be written so that the list of readers has one more, with this
-- field. It is called while lock.readers does not count that reader. When more than half of the list is of
-- readers that have gone, it is written anew.
local function enlist(lock, field)
  local m, part = tonumber(redis.call('HGET', lock.key, 'm') or 0), ''
  if m >= 2 * lock.readers + 16 then
    local fields = {}
    for some in reader_holds(lock.key, lock.readers) do
      for _, name in ipairs(some) do fields[#fields + 1] = name end
    end
    for i = 0, math.ceil(m / 16) - 1 do
      local names = table.concat(fields, ' ', 16 * i + 1, math.min(16 * i + 16, #fields))
      if names == '' then
        redis.call('HDEL', lock.key, 'm:' .. i)
      else
        redis.call('HSET', lock.key, 'm:' .. i, names .. ' ')
      end
    end
    m = #fields
  end
  local at = 'm:' .. math.floor(m / 16)
  if m % 16 > 0 then part = redis.call('HGET', lock.key, at) end
  return 'm', m + 1, at, part .. field .. ' '
end
