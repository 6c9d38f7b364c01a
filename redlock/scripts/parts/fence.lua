-- next_fence(fence_key, clock, wanted) is a fence higher than every one of the slot's locks so far, and noted
-- there. It is text of 16 digits, because Lua writes so large a number in short. wanted, if not nil, is the
-- one that is taken if it is high enough, and at most a second ahead of the clock.
--
-- The key of the fence holds it in 16 bytes, and behind it the answers to releases, as remember.lua notes
-- them. The offsets are texts here and in recall.lua: Redis takes long to make one of a number of Lua.
local function next_fence(fence_key, clock, wanted)
  local f = clock[1] .. string.sub('00000' .. clock[2], -6)
  if wanted and wanted > tonumber(f) and wanted <= tonumber(f) + 1000000 then f = string.format('%.0f', wanted) end
  local last = redis.call('GETRANGE', fence_key, '0', '15')
  if last >= f or #f < 16 then -- as text, which is quick, and right for 16 digits
    last = tonumber(string.match(last, '^%d*')) or 0
    if last >= tonumber(f) then f = string.format('%.0f', last + 1) end -- the clock stands still, or stepped back
  end
  redis.call('SETRANGE', fence_key, '0', f)
  return f
end
