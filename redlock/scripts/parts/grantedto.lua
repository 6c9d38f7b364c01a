-- granted_to(hold) is the id of the last request that a hold was granted to, re-entries and upgrades
-- included.
local function granted_to(hold)
  local ids = string.match(hold, '^%d+ %d+ %d+ %d+ %S+ (%S*)')
  return string.match(ids, '^%+([%w,]+)$') or string.match(ids, '.*[%+%^%*]([%w,]+)')
end
