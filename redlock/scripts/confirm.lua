-- confirm says what remains of a hold, and writes what changes nothing, so that a WAIT behind it counts the
-- replicas that have all of the lock: since Redis 7.2 it counts from the last write of its own connection.
--
-- KEYS  the lock
-- ARGV  token, fence of the grant that is meant or ""
-- Reply an array of one integer: the ms that remain; 0: the hold is gone
local key, token, want = KEYS[1], ARGV[1], ARGV[2]
--#include look.lua
--#include hold.lua
--#include now.lua
local now, from = in_ms(redis.call('TIME'))
local kind, plain, _, owner = look(key)
local left = 0
if kind == 'plain' then
  if owner == token and (want == '' or want == plain) then left = now + redis.call('PTTL', key) - from end
elseif kind == 'hash' then
  local s = redis.call('HMGET', key, 'o', 'w', 'r:' .. token)
  local hold = s[1] == token and s[2] or s[3]
  if hold then
    local e, _, f = parse_hold(hold)
    if e > now and (want == '' or want == f) then left = e - from end
  end
end
if left > 0 then
  local at = redis.pcall('PEXPIRETIME', key) -- unknown before Redis 7.0, where WAIT counts what anybody wrote
  if type(at) == 'number' and at > 0 then redis.call('PEXPIREAT', key, at) end
end
return {left}
