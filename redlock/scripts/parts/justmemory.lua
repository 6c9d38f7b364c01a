--#include becomehash.lua
-- just_memory(key, memory) leaves nothing of a lock that is free but its memory, for 20 s; nor that if it has
-- none.
local function just_memory(key, memory)
  if not memory then return redis.call('DEL', key) end
  become_hash(key, 20000)
  redis.call('HSET', key, 'v', '1', 'a', memory)
  redis.call('PEXPIRE', key, 20000)
end
