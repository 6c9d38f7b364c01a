-- tell_broken(held, fence_name) tells the proxy that keeps a hold alive, as read_compat returns it, that the
-- hold was broken. fence_name is the name of the key of the slot's fence.
local function tell_broken(held, fence_name)
  if not held.keeper or held.keeper == '-' then return end
  local keeper = keeper_of(held.keeper)
  redis.pcall('PUBLISH', keeper_channel(fence_name, string.match(keeper, '^(.*):')), 'broken ' .. keeper)
end
