-- rewrite(key, text) has a plain lock be this text. It is deleted first because that is allowed when Redis is
-- full, and so is what follows: see evenfull.lua.
local function rewrite(key, text)
  local left = math.max(redis.call('PTTL', key), 1)
  redis.call('DEL', key)
  redis.call('SET', key, text, 'PX', left)
end
