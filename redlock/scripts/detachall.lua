-- detachall frees holds that are kept alive, many at once: all of one slot. It leaves to release.lua those
-- that take longer: readers, locks with a queue, holds that others have asked for since, or that have to
-- rest.
--
-- KEYS  the locks
-- ARGV  two for each lock: token; keeper
-- Reply an integer for each lock: 1: freed; 0: left as it is
-- Effects: those holds go. Sent again it does nothing.
local replies, free = {}, {}
for i, key in ipairs(KEYS) do
  local token, keeper = unpack(ARGV, 2 * i - 1, 2 * i)
  -- Another type than a hash is an error, which has no such elements.
  local version, owner, writer, packed = unpack(redis.pcall('HMGET', key, 'v', 'o', 'w', 's'))
  local kept, note = string.match(writer or '', '^%d+ %d+ %d+ %d+ (%S+) %S*(.?)')
  -- A note that begins with a tab is one of ATLEAST, see noteof.lua.
  local frees = version == '1' and owner == token and kept == keeper and not packed and note ~= '\t'
  if frees then free[#free + 1] = key end
  replies[i] = frees and 1 or 0
end
if #free > 0 then redis.call('DEL', unpack(free)) end
return replies
