-- keeper_after(kept, wanted) is what is stored as the keeper once a client has asked for a hold. wanted is a
-- new keeper; or = and the keeper that the client believes to have already; or "" for none.
local function keeper_after(kept, wanted)
  if wanted == '' or string.sub(wanted, 1, 1) == '=' then
    if kept == '-' or wanted == '=' .. keeper_of(kept) then return kept end
    return keeper_of(kept) .. '!'
  end
  return string.sub(kept, -1) == '!' and wanted .. '!' or wanted
end
