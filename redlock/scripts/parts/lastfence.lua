-- last_fence(fence_key) is the last fence of a slot, a number; 0: there was none.
local function last_fence(fence_key) return tonumber(redis.call('GET', fence_key) or '') or 0 end
