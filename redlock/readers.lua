-- readers.lua has reader_holds(key, count), which lists the readers of a lock: their fields, and their holds
-- in the same order. count is how many the lock counts.
--
-- A lock may have many more waiters than readers, so the names of all its fields are too many to read. The
-- names of the readers' fields are listed in the fields m:0, m:1 ..., 16 in each, m of them in all; enlist
-- adds to them. A reader that has gone is still listed, and one that came back is listed twice. A reader that
-- was let in by a proxy of an older version is not listed: if that leaves fewer than the lock counts, the
-- names of all fields are read.
local function reader_holds(key, count)
  local fields, holds, names = {}, {}, {}
  local function read_holds()
    fields, holds = {}, {}
    for first = 1, #names, 200 do
      local last = math.min(first + 199, #names)
      for i, hold in ipairs(redis.call('HMGET', key, unpack(names, first, last))) do
        if hold then
          fields[#fields + 1] = names[first + i - 1]
          holds[#holds + 1] = hold
        end
      end
    end
  end
  local parts, seen = {}, {}
  for i = 0, math.ceil(tonumber(redis.call('HGET', key, 'm') or 0) / 16) - 1 do parts[#parts + 1] = 'm:' .. i end
  for _, part in ipairs(#parts > 0 and redis.call('HMGET', key, unpack(parts)) or parts) do
    for name in string.gmatch(part or '', '%S+') do
      if not seen[name] then
        seen[name] = true
        names[#names + 1] = name
      end
    end
  end
  read_holds()
  if #fields == count then return fields, holds end
  names = {}
  for _, name in ipairs(redis.call('HKEYS', key)) do
    if string.byte(name) == 114 then names[#names + 1] = name end -- r, with which no other field begins
  end
  read_holds()
  return fields, holds
end
