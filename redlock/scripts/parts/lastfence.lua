-- last_fence(fence_key) is the last fence of a slot, a number; 0: there was none.
local function last_fence(fence_key)
  return tonumber(string.match(redis.call('GETRANGE', fence_key, 0, 15), '^%d*')) or 0
end
