-- recall(fence_key, id) is the answer that this release got when it came before, 0 or 1; nil: it is not known
-- to have come before.
local function recall(fence_key, id)
  if not fence_key then return nil end
  local answers = redis.pcall('GETRANGE', fence_key, '15', '-1')
  local at = type(answers) == 'string' and string.find(answers, id, 1, true)
  if not at then return nil end
  return string.sub(answers, at - 1, at - 1) == '-' and 0 or 1
end
