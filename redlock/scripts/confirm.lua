-- confirm says what remains of a hold, and writes something that changes nothing. Since Redis 7.2 a WAIT
-- counts replicas from the last write of its own connection; behind this script it counts those that have all
-- of the lock.
--
-- KEYS  1  the lock
-- ARGV  1  token
--       2  fence of the grant that is meant, or ""
-- Reply an array of one integer: the ms that remain; 0: the hold is gone
local key, token, want = KEYS[1], ARGV[1], ARGV[2]
--#include look.lua
--#include ownhold.lua
--#include hold.lua
--#include now.lua
local now, from = in_ms(redis.call('TIME'))
local kind, plain_fence, _, plain_owner = look(key)
local left = 0
if kind == 'plain' then
  if plain_owner == token and (want == '' or want == plain_fence) then
    left = now + redis.call('PTTL', key) - from
  end
elseif kind == 'hash' then
  local _, hold = own_hold(key, token)
  if hold then
    local expiry, _, fence = parse_hold(hold)
    if expiry > now and (want == '' or want == fence) then left = expiry - from end
  end
end
if left > 0 then
  -- Redis before 7.0 does not know PEXPIRETIME, but there WAIT counts what anybody wrote.
  local at = redis.pcall('PEXPIRETIME', key)
  if type(at) == 'number' and at > 0 then redis.call('PEXPIREAT', key, at) end
end
return {left}
