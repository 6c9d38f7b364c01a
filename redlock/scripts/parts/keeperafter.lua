local function proxy_of(kept) return string.match(kept, '^%w+:') end -- of the first one; or nil
-- keeper_after(kept, wanted) is what is stored as the keeper once a client has asked for a hold. wanted is a
-- new keeper; or = and the keeper that the client believes to have already; or "" for none.
local function keeper_after(kept, wanted)
  local first, others = string.match(kept, '^([^!<]*)!?(.*)$')
  if wanted == '' or string.sub(wanted, 1, 1) == '=' then
    if kept == '-' or wanted == '=' .. first then return kept end
    return first .. '!' .. others
  end
  if first ~= '-' then others = string.gsub('<' .. first .. others, '<' .. proxy_of(wanted) .. '%w+', '') end
  return wanted .. (string.find(kept, '!', 1, true) and '!' or '') .. others
end
