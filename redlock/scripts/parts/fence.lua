-- fence_after(last, clock, wanted) is a fence higher than every one of a slot's locks so far: last is what the
-- first 16 bytes of its key say, clock the reply of TIME. It is text of 16 digits, because Lua writes so large a
-- number in short. wanted, if not nil, is the one that is taken if it is high enough, and at most a second ahead
-- of the clock.
local function fence_after(last, clock, wanted)
  local f = clock[1] .. string.sub('00000' .. clock[2], -6)
  if wanted and wanted > tonumber(f) and wanted <= tonumber(f) + 1000000 then f = string.format('%.0f', wanted) end
  if last >= f or #f < 16 then -- as text, which is quick, and right for 16 digits
    last = tonumber(string.match(last, '^%d*')) or 0
    if last >= tonumber(f) then f = string.format('%.0f', last + 1) end -- the clock stands still, or stepped back
  end
  return f
end

-- next_fence(fence_key, clock, wanted) is such a fence, noted in its key; without a key it is one that stands for it
-- until number.lua has put it there: 0001 and the end of what the clock shows, which no other
-- grant has. That holds it in 16 bytes, and behind
-- it the answers to releases, as remember.lua notes them. The offsets are texts here and in recall.lua: Redis
-- takes long to make one of a number of Lua.
local function next_fence(fence_key, clock, wanted)
  if not fence_key then return string.format('0001%06d%06d', clock[1] % 1000000, clock[2]) end
  local f = fence_after(redis.call('GETRANGE', fence_key, '0', '15'), clock, wanted)
  redis.call('SETRANGE', fence_key, '0', f)
  return f
end
