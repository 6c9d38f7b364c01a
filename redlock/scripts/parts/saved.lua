-- saved(lock, reply) is the reply of a script that has nothing more to do than to save.
local function saved(lock, reply)
  save(lock)
  return reply
end
