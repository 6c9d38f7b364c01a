-- free_compat(key, publish, channel) frees a lock in the form of another library, and tells those who wait.
-- No lock depends on a message, so one that cannot be sent is left out.
local function free_compat(key, publish, channel)
  redis.call('DEL', key)
  redis.pcall(publish, channel, '0')
end
