-- look(key) says what a key holds: none; plain, with the fence, the requests and the owner of the lock; hash;
-- or the type of what is no lock.
local function look(key)
  local kind = redis.call('TYPE', key)
  kind = kind.ok or kind
  if kind ~= 'string' then return kind end
  local fence, ids, owner = string.match(redis.call('GET', key), '^lockproxy 1 (%d+) (%S+) (.*)$')
  if fence then return 'plain', fence, ids, owner end
  return kind
end
