-- meant.lua says whether a hold is one that a request means: want is the fence of its grant; or the id of the
-- request, which then means no grant that its own proxy has asked for since. f is the fence of the hold, ids
-- are the requests that made it, or a text in which those begin at the byte at. Ids of one proxy begin with
-- the same 8 letters and digits, and count up behind them.
local function meant(want, f, ids, at)
  local grant = string.match(ids, '^[~%w]*[%+!@]' .. string.sub(want, 1, 8) .. '(%w+)', at or 1)
  if grant then return tonumber(grant, 32) <= tonumber(string.sub(want, 9, 16), 32) end
  return want == f or not string.find(want, '^%d+$')
end
