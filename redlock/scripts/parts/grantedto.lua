-- granted_to(hold) is the request that made a hold what it is.
local function granted_to(hold)
  local ids = string.match(hold, '^%d+ %d+ %d+ %d+ %S+ (%S*)')
  return string.match(ids, '^%+([%w,]+)$') or string.match(ids, '.*[%+%^%*]([%w,]+)')
end
