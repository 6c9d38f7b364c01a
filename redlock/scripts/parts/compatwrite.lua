-- write_compat(form, key, before, text, lease) makes text the hold of the lock, in place of the hold before,
-- if there is one.
local function write_compat(form, key, before, text, lease)
  if form ~= 'redisson' then return redis.call('SET', key, text, 'PX', lease) end
  redis.call('HSET', key, text, '1')
  if before and before.text ~= text then redis.call('HDEL', key, before.text) end
  redis.call('PEXPIRE', key, lease)
end
