-- readers.lua lists the readers of a lock. It reads the names of all fields, but only the values that it needs:
-- most fields may be those of waiters, and each text costs Lua as much as the search for it. Needs key.
-- Returns their fields, and their holds in the same order.
local function reader_holds()
  local fields, holds, all, byte = {}, {}, redis.call('HKEYS', key), string.byte
  for i = 1, #all do
    if byte(all[i]) == 114 then fields[#fields + 1] = all[i] end -- r, with which no other field begins
  end
  for i = 1, #fields, 1000 do
    for _, hold in ipairs(redis.call('HMGET', key, unpack(fields, i, math.min(i + 999, #fields)))) do
      holds[#holds + 1] = hold
    end
  end
  return fields, holds
end
