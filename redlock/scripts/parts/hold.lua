-- hold.lua reads and writes holds. Their format is described on top of acquire.lua.
--
-- kept is the keeper of a hold as it is stored, - for none. note is the meta with a blank in front, or "".
local function parse_hold(hold)
  local expiry, count, fence, since, kept, ids, note =
    string.match(hold, '^(%d+) (%d+) (%d+) (%d+) (%S+) (%S*)(.*)$')
  return tonumber(expiry), tonumber(count), fence, since, kept, ids, note
end

-- A hold has room for eight ids, or fewer if some have names of clients. If there are more, the oldest are
-- dropped, except the very first, the one that the lock was granted to: it gets the mark @, and is there to
-- recognise that request if it is sent again.
local function pack_hold(expiry, count, fence, since, kept, ids, note)
  if #ids > 136 then
    ids = '@' .. string.match(ids, '[%w,]+') .. string.match(string.sub(ids, -119), '[^%w,:].*')
  end
  return string.format('%d %d %s %d %s %s', expiry, count, fence, since, kept, ids) .. note
end
