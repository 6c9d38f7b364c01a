-- fence.lua makes f, a fence higher than every one of the slot's locks so far. Needs clock,
-- KEYS[2]. It is text of 16 digits, because Lua writes so large a number in short. Acquire may want
-- a certain one, which it gets if that is high enough, and at most a second ahead of the clock.
--
-- The key of the fence holds it in 16 bytes, and behind it the answers to releases, as remember.lua notes them.
local f = clock[1] .. string.sub('00000' .. clock[2], -6)
local wanted = ARGV[13] and tonumber(ARGV[13])
if wanted and wanted > tonumber(f) and wanted <= tonumber(f) + 1000000 then f = ARGV[13] end
local last = redis.call('GETRANGE', KEYS[2], 0, 15)
if last >= f or #f < 16 then -- as text, which is quick, and right for 16 digits
  last = tonumber(string.match(last, '^%d*')) or 0
  if last >= tonumber(f) then f = string.format('%.0f', last + 1) end -- the clock stands still, or stepped back
end
redis.call('SETRANGE', KEYS[2], 0, f)
