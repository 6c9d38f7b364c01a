-- own_hold(key, token) is the field of the hold of a token in a lock that is a hash, w or r:<token>, and the
-- hold, false if there is none. Behind these it returns the fields s, o and w of the lock.
local function own_hold(key, token)
  local owner, writer, packed, shared = unpack(redis.call('HMGET', key, 'o', 'w', 's', 'r:' .. token))
  if owner == token then return 'w', writer, packed, owner, writer end
  return 'r:' .. token, shared, packed, owner, writer
end
