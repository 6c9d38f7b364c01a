-- look(key) says what a key holds: "none"; "plain" for a plain lock, with what read_plain returns; "hash"; or
-- another type of Redis, which is no lock.
--#include plain.lua
local function look(key)
  local kind = redis.call('TYPE', key)
  kind = kind.ok or kind
  if kind ~= 'string' then return kind end
  local fence, ids, owner = read_plain(redis.call('GET', key))
  if fence then return 'plain', fence, ids, owner end
  return kind
end
