-- fence.lua makes f, a fence higher than every one of the slot's locks so far. Needs clock,
-- KEYS[2]. It is text of 16 digits, because Lua writes so large a number in short. Acquire may want
-- a certain one, which it gets if that is high enough, and at most a second ahead of the clock.
--
-- The key of the fence holds it in 16 bytes and, behind a blank, the ids of the last four releases, newest first,
-- that left nothing of their locks: released, "id~id~id~id", or "". GETSET takes them away, so whoever includes this
-- keeps them.
local f = clock[1] .. string.sub('00000' .. clock[2], -6)
local wanted = ARGV[13] and tonumber(ARGV[13])
if wanted and wanted > tonumber(f) and wanted <= tonumber(f) + 1000000 then f = ARGV[13] end
local released = redis.call('GETSET', KEYS[2], f) or ''
if released >= f or #f < 16 then -- as text, which is quick, and right for 16 digits
  local last = tonumber(string.match(released, '^%d*')) or 0
  if last >= tonumber(f) then -- the clock stands still, or stepped back
    f = string.format('%.0f', last + 1)
    redis.call('SET', KEYS[2], f)
  end
end
released = string.sub(released, 18, 84)
