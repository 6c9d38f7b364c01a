-- keep renews holds that are kept alive, many at once: all of one slot.
--
-- KEYS  the locks
-- ARGV  four for each lock: token; lease in ms; fence of the grant that is meant, or ""; keeper
--       With the lease 0 nothing is renewed, it only asks: then "" as the keeper stands for any, and
--       something is written that changes nothing. Since Redis 7.2 a WAIT counts replicas from the last write
--       of its own connection; behind this script it counts those that have all of the lock.
--       behind them all clock, if the reply should have it
-- Reply an integer for each lock: the ms that remain; 0: the hold is gone; -1: it has another keeper
--       behind them the clock in µs
-- Effects: the leases of those holds and of their keys.
--#include look.lua
--#include now.lua
--#include hold.lua
--#include keeper.lua
--#include keeperafter.lua
--#include meant.lua
--#include extend.lua
local clock = redis.call('TIME')
local now, from = in_ms(clock)
local replies = {}
for i, key in ipairs(KEYS) do
  local token, lease, want, keeper = unpack(ARGV, 4 * i - 3, 4 * i)
  local kind, plain_fence, _, plain_owner = look(key)
  local left = 0
  if kind == 'plain' then
    if plain_owner == token and (want == '' or want == plain_fence) then
      left = keeper == '' and now + redis.call('PTTL', key) - from or -1
    end
  elseif kind == 'hash' and lease == '0' then
    local _, hold = own_hold(key, token)
    if hold then
      local expiry, _, fence, _, kept = parse_hold(hold)
      if expiry > now and (keeper ~= '' or want == '' or want == fence) then
        left = (keeper == '' or keeper == keeper_of(kept)) and expiry - from or -1
      end
    end
  elseif kind == 'hash' then
    left = extend(key, token, tonumber(lease), '', keeper, false, now, from)
  end
  if lease == '0' and keeper == '' and left > 0 then
    -- Redis before 7.0 does not know PEXPIRETIME, but there WAIT counts what anybody wrote.
    local at = redis.pcall('PEXPIRETIME', key)
    if type(at) == 'number' and at > 0 then redis.call('PEXPIREAT', key, at) end
  end
  replies[i] = left
end
if #ARGV > 4 * #KEYS then replies[#KEYS + 1] = clock[1] * 1000000 + clock[2] end
return replies
