-- reader_holds(key, at) iterates over the readers of a lock, up to 200 at a time. Each step returns their
-- fields; their holds, in the same order; how many names it has looked at; and true if that is enough for one
-- script. at is how many names to skip, nil for none.
--
-- A lock may have far more waiters than readers, so reading all its fields would take too long. Therefore the
-- names of the readers' fields are listed in the fields m:0, m:1 ..., 16 in each; the field m says how many
-- names there are. enlist adds names. A reader that has gone is still listed, and one that came back is
-- listed twice.
--
-- A hold may be a kilobyte long, and others wait for Redis. So after 150 kB of holds it is enough for one
-- script.
local function reader_holds(key, at)
  local names, seen, parts, bytes = {}, {}, {}, 0
  local listed = tonumber(redis.call('HGET', key, 'm') or 0)
  for i = 0, math.ceil(listed / 16) - 1 do parts[#parts + 1] = 'm:' .. i end
  for _, part in ipairs(#parts > 0 and redis.call('HMGET', key, unpack(parts)) or parts) do
    for name in string.gmatch(part or '', '%S+') do
      if not seen[name] then names[#names + 1] = name end
      seen[name] = true
    end
  end
  at = at or 0
  return function()
    if at >= #names then return nil end
    local first, fields, holds = at, {}, {}
    at = math.min(at + 200, #names)
    for i, hold in ipairs(redis.call('HMGET', key, unpack(names, first + 1, at))) do
      if hold then
        fields[#fields + 1] = names[first + i]
        holds[#holds + 1] = hold
        bytes = bytes + #hold
      end
    end
    return fields, holds, at, bytes > 150000
  end
end
