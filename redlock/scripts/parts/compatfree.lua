-- free_compat(key, publish, channel) frees a lock in the form of another library, and tells those who wait,
-- with the message that Redisson sends. Some versions of Redisson listen to SPUBLISH, others to PUBLISH. No
-- lock depends on a message, so one that cannot be sent is left out.
local function free_compat(key, publish, channel)
  redis.call('DEL', key)
  redis.pcall('PUBLISH', channel, '0')
  if publish == 'SPUBLISH' then redis.pcall('SPUBLISH', channel, '0') end
end
