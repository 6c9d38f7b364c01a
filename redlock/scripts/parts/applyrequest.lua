-- apply_request(hold, shared, mode, id, reentrant, wanted_keeper, note, least_expiry) applies a LOCK to the
-- hold that its token has already. shared says that the hold is one of a reader. wanted_keeper is as in
-- keeper_after. The hold lasts until least_expiry at least.
--
-- It returns the hold as parse_hold does, then two flags: the request has come before, and the reader is to
-- become the writer.
local function apply_request(hold, shared, mode, id, reentrant, wanted_keeper, note, least_expiry)
  local expiry, count, fence, since, kept, ids, old_note = parse_hold(hold)
  local name, sent_before, upgrade = string.match(id, ',%w+'), string.find(ids, id, 1, true), false
  if not sent_before and name and string.find(ids, name, 1, true) then
    -- The client has sent it again itself, so the proxy has given it another id.
    sent_before = true
    ids, kept = ids .. '=' .. id, keeper_after(kept, wanted_keeper)
  elseif not sent_before then
    upgrade = shared and mode == 'w'
    if reentrant then count = count + 1 end
    ids = ids .. (upgrade and (reentrant and '*' or '^') or reentrant and '+' or '=') .. id
    kept = keeper_after(kept, wanted_keeper)
    if note ~= '' then
      --#include noteafter.lua
      old_note = note_after(old_note, note)
    end
  end
  return math.max(expiry, least_expiry), count, fence, since, kept, ids, old_note, sent_before, upgrade
end
