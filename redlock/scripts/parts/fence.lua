-- next_fence(fence_key, clock, wanted) makes a fence that is higher than all earlier ones of its slot, and
-- stores it: what the clock shows in µs (the reply of TIME), or one more than the last fence if that is
-- higher. wanted, if it is a number, becomes the fence if it is high enough and at most a second ahead of the
-- clock.
--
-- The fence is text of 16 digits, because Lua would write so large a number in short, and at most 2^53,
-- because beyond that it cannot count. A clock that shows anything else makes the least. The key of the fence
-- has it in its first 16 bytes, and behind it the answers to releases (see remember.lua). Offsets are texts
-- here and in recall.lua, because Redis is slow to turn a number of Lua into one.
local function next_fence(fence_key, clock, wanted)
  local fence = clock[1] .. string.sub('00000' .. clock[2], -6)
  local last = redis.call('GETRANGE', fence_key, '0', '15')
  if wanted and wanted - fence > 0 and wanted - fence <= 1e6 then fence = string.format('%.0f', wanted) end
  if #fence ~= 16 or fence > '9007199254740992' then fence = '1000000000000000' end
  if last >= fence then -- texts are compared, which is quick, and right for 16 digits
    last = tonumber(string.match(last, '^%d*')) or 0
    if last >= 2^53 then error('the fences of this slot are used up') end
    -- The clock stands still, or has stepped back.
    if last >= tonumber(fence) then fence = string.format('%.0f', last + 1) end
  end
  redis.call('SETRANGE', fence_key, '0', fence)
  return fence
end
