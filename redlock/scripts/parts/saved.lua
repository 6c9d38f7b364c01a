-- saved(lock, reply) is the reply of a script that has nothing more to do than to save. A full Redis may
-- refuse that, unless something was deleted: then the next request looks again.
local function saved(lock, reply)
  pcall(save, lock)
  return reply
end
