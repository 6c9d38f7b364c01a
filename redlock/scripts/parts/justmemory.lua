-- just_memory(key, memory) leaves nothing of a lock that is free but its memory, for 20 s; nor that if it has
-- none. Its key is there all the time, because the source of a slot that moves lets no script name a key
-- that is not there.
local function just_memory(key, memory)
  if not memory then return redis.call('DEL', key) end
  redis.call('HDEL', key, 'o', 'w', 's')
  redis.call('HSET', key, 'a', memory)
  redis.call('PEXPIRE', key, 20000)
end
