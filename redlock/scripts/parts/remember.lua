-- remember(fence_key, mark, id) notes the answer to a release behind the fence of the slot: a blank for
-- released, - for counted down, then its id. The last 32 answers of the slot are always known, and never more
-- than 64.
local function remember(fence_key, mark, id)
  if not fence_key then return end
  local size = redis.pcall('APPEND', fence_key, mark .. id)
  if type(size) == 'number' and size > 16 + 64 * 17 then
    local fence = redis.call('GETRANGE', fence_key, 0, 15)
    redis.call('SET', fence_key, fence .. redis.call('GETRANGE', fence_key, -32 * 17, -1))
  end
end
