-- hold.lua reads and writes holds as acquire.lua describes them. The meta comes with the
-- blank before it, or is "".
local function parse_hold(hold)
  local e, n, f, since, kept, ids, note = string.match(hold, '^(%d+) (%d+) (%d+) (%d+) (%S+) (%S*)(.*)$')
  return tonumber(e), tonumber(n), f, since, kept, ids, note
end

-- There is room for eight requests, for fewer if their clients name them. The first, which the lock was
-- granted to, stays with an @: it is only compared with, and known when it is sent again.
local function pack_hold(e, n, f, since, kept, ids, note)
  if #ids > 136 then
    ids = '@' .. string.match(ids, '[%w,]+') .. string.match(string.sub(ids, -119), '[^%w,].*')
  end
  return string.format('%d %d %s %d %s %s', e, n, f, since, kept, ids) .. note
end

-- A keeper with ! behind it renews the hold but does not free it: somebody else has asked for
-- it since, who relies on it. bare is the keeper without that.
local function bare(kept) return string.match(kept, '^[^!]*') end

-- rely is the keeper of a hold after a request for it. That names the keeper that the hold has from now
-- on; or, with = before it, the one under which whoever asks keeps the hold already, as far as they
-- know; or none ("").
local function rely(kept, keeper)
  if keeper == '' or string.sub(keeper, 1, 1) == '=' then
    if kept == '-' or keeper == '=' .. bare(kept) then return kept end
    return bare(kept) .. '!'
  end
  return string.sub(kept, -1) == '!' and keeper .. '!' or keeper
end
