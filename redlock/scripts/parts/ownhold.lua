-- own_hold(key, token) is the field of the hold of a token in a lock that is a hash, w or r:<token>, and the
-- hold, false or nil if there is none. Behind these it returns the fields s, o, w and v of the lock. All are
-- nil if the key holds something else than a hash.
local function own_hold(key, token)
  local owner, writer, packed, version, shared =
    unpack(redis.pcall('HMGET', key, 'o', 'w', 's', 'v', 'r:' .. token))
  if owner == token then return 'w', writer, packed, owner, writer, version end
  return 'r:' .. token, shared, packed, owner, writer, version
end
