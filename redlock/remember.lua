-- remember.lua notes behind the fence of the slot what a release is answered: " id" for released, "-id" for counted
-- down. At least the last 32 releases of the slot are known, and at most 64. Needs KEYS[2], id, mark.
local size = redis.pcall('APPEND', KEYS[2], mark .. id)
if type(size) == 'number' and size > 16 + 64 * 17 then
  redis.call('SET', KEYS[2], redis.call('GETRANGE', KEYS[2], 0, 15) .. redis.call('GETRANGE', KEYS[2], -32 * 17, -1))
end
