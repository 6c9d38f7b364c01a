-- remember(fence_key, mark, id) notes behind the fence of the slot what a release is answered. The mark is a
-- blank for released, or - for counted down. At least the last 32 releases of the slot are known, and at most
-- 64.
local function remember(fence_key, mark, id)
  if not fence_key then return end
  local size = redis.pcall('APPEND', fence_key, mark .. id)
  if type(size) == 'number' and size > 16 + 64 * 17 then
    local fence, last = redis.call('GETRANGE', fence_key, 0, 15), redis.call('GETRANGE', fence_key, -32 * 17, -1)
    redis.call('SET', fence_key, fence .. last)
  end
end
