-- hold.lua reads and writes holds. A hold is "expiry count fence since keeper requests meta". The keeper
-- (kept) is as keeper.lua says, - for none. What stands behind the requests is the note, see noteof.lua.
--
-- The requests are the last eight that made the hold what it is, each an id behind a mark:
--   +id         it counted the hold up (the first did so too)     -id   it counted it down
--   =id         the same token asked again; =0000000000000000 stands for all renewals, =1111111111111111 for
--               the last CHECK
--   ^id  *id    it made the reader the writer; * also counted it up. Behind the id are the fence and the
--               count from before, each behind a colon. A request that came before that and is sent again
--               gets the answer that was true then. Once it is cancelled, the hold has that fence again
--   !id ?id &id   +id, ^id and *id that were cancelled after others had been told of their effect
--   @id         the very first, to which the lock was granted, if there is no room for all
-- The id of a LOCK to which its client gave a name (ID) is "id,name".
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
