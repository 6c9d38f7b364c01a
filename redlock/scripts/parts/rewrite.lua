-- rewrite(key, text) replaces the text of a plain lock. The lock stays there all the time, because the source
-- of a slot that moves lets no script name a key that is not there. PEXPIRE comes first: a full Redis allows
-- that, and then whatever the script writes after it (see allowwrites.lua).
local function rewrite(key, text)
  local left = math.max(redis.call('PTTL', key), 1)
  redis.call('PEXPIRE', key, left)
  redis.call('SET', key, text, 'PX', left)
end
