-- reader_holds(key, count, at) is for a loop over the readers of a lock, some at a time: it gives their fields,
-- their holds in the same order, how many names it has gone through, from the at-th on (nil: from the first), and
-- whether that is enough for one script. count is how many readers there must be from there on, 0 if that is not
-- known.
--
-- A lock may have many more waiters than readers, so the names of all its fields are too many to read. The
-- names of the readers' fields are listed in the fields m:0, m:1 ..., 16 in each, m of them in all; enlist
-- adds to them. A reader that has gone is still listed, and one that came back is listed twice. A reader that
-- was let in by a proxy of an older version is not listed: if fewer than count are found, the names of all
-- fields are read. A hold may be a kilobyte long: about 200 of them are enough, while others wait for Redis.
local function reader_holds(key, count, at)
  local names, seen, parts, bytes = {}, {}, {}, 0
  local function add(name)
    if not seen[name] then names[#names + 1] = name end
    seen[name] = true
  end
  for i = 0, math.ceil(tonumber(redis.call('HGET', key, 'm') or 0) / 16) - 1 do parts[#parts + 1] = 'm:' .. i end
  for _, part in ipairs(#parts > 0 and redis.call('HMGET', key, unpack(parts)) or parts) do
    for name in string.gmatch(part or '', '%S+') do add(name) end
  end
  at = at or 0
  return function()
    if at >= #names and count > 0 then
      count = 0
      for _, name in ipairs(redis.call('HKEYS', key)) do
        if string.byte(name) == 114 then add(name) end -- r, with which no other field begins
      end
    end
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
    count = math.max(count - #holds, 0)
    return fields, holds, at, bytes > 150000
  end
end
