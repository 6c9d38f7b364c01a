-- renew makes leases of holds longer, never shorter; or it only asks how long they last. Many at once: all of
-- one slot.
--
-- KEYS  the locks; only one for a client
-- ARGV  1  who asks:
--          client  RENEW: the hold has that keeper from now on; = and a keeper is the one that the client's
--                  connection has for it already; "" for none
--          keeper  each hold must have a keeper of that proxy (see keeper.lua). With the lease 0 nothing is
--                  renewed, it only asks: then "" as the keeper stands for any, and something is written that
--                  changes nothing. Since Redis 7.2 a WAIT counts replicas from the last write of its own
--                  connection; behind this script it counts those that have all of the lock.
--       2  the name of the key of the slot's fence
--       behind them four for each lock: token; lease in ms; fence of the grant that is meant, or for a client
--       the id of this request, or ""; keeper
-- Reply an integer for each lock: the ms that remain; 0: the token holds nothing here; -1: none of that proxy
--          keeps it
--       for a client behind it the fence, if the hold has a new keeper, or 0
--       behind them the clock in µs
-- Effects: the leases of those holds and of their keys; the keeper. The keepers that it ends are told.
local who, fence_name, clock = ARGV[1], ARGV[2], redis.call('TIME')
--#include plain.lua
--#include now.lua
--#include hold.lua
--#include keeper.lua
--#include keeperafter.lua
--#include keeperrenews.lua
--#include tellkeepers.lua
--#include meant.lua
--#include extend.lua
--#include islock.lua
local now, from = in_ms(clock)
local micros, replies = clock[1] * 1000000 + clock[2], {}

if who == 'client' then
  local key, token, lease, want, keeper = KEYS[1], unpack(ARGV, 3)
  local plain_fence, plain_ids, plain_owner = read_plain(redis.call('MGET', key)[1])
  if plain_fence and plain_owner ~= token then return {0, 0, micros} end
  if not plain_fence and not is_lock(unpack(redis.pcall('HMGET', key, 'v'))) then
    --#include foreign.lua
    return foreign(key) or {0, 0, micros}
  end
  if plain_fence then
    --#include unfold.lua
    now, from = in_ms(unfold(key, plain_fence, plain_ids, plain_owner))
  end
  local left, fence = extend(key, token, tonumber(lease), want, keeper, true, now, from)
  if left <= 0 or keeper == '' or string.sub(keeper, 1, 1) == '=' then return {left, 0, micros} end
  return {left, tonumber(fence), micros}
end

for i, key in ipairs(KEYS) do
  local token, lease, want, keeper = unpack(ARGV, 4 * i - 1, 4 * i + 2)
  local plain_fence, _, plain_owner = read_plain(redis.call('MGET', key)[1])
  local left, others = 0, ''
  if plain_fence and plain_owner == token and (want == '' or want == plain_fence) then
    left = keeper == '' and now + redis.call('PTTL', key) - from or -1
  elseif not plain_fence then
    want = keeper == '' and want or ''
    left, _, others = extend(key, token, tonumber(lease), want, keeper, false, now, from)
    tell_keepers(fence_name, 'taken', others or '')
  end
  if lease == '0' and keeper == '' and left > 0 then
    -- Redis before 7.0 does not know PEXPIRETIME, but there WAIT counts what anybody wrote.
    local at = redis.pcall('PEXPIRETIME', key)
    if type(at) == 'number' and at > 0 then redis.call('PEXPIREAT', key, at) end
  end
  replies[i] = left
end
replies[#KEYS + 1] = micros
return replies
