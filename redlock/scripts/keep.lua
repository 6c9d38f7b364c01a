-- keep makes the leases of holds that are kept alive longer, all of one slot.
--
-- KEYS  the locks
-- ARGV  for each of them: token, lease in ms, fence of the grant that is meant or "", keeper or
--       "" for whoever only asks with the lease 0, which changes nothing
--       and behind them clock, if it is wanted
-- Reply an array of an integer each: the ms that remain; 0: the hold is gone; -1: it has
--       another keeper; and behind them the clock in µs
-- Effects the leases of those holds, and of their keys
--#include look.lua
--#include now.lua
--#include hold.lua
--#include meant.lua
--#include extend.lua
local clock = redis.call('TIME')
local now, from = in_ms(clock)
local replies = {}
for i, key in ipairs(KEYS) do
  local token, lease, want, keeper = unpack(ARGV, 4 * i - 3, 4 * i)
  local kind, plain, _, owner = look(key)
  local left = 0
  if kind == 'plain' then
    if owner == token and (want == '' or want == plain) then
      left = keeper == '' and now + redis.call('PTTL', key) - from or -1
    end
  elseif kind == 'hash' and lease == '0' then
    local s = redis.call('HMGET', key, 'o', 'w', 'r:' .. token)
    local hold = s[1] == token and s[2] or s[3]
    if hold then
      local e, _, f, _, kept = parse_hold(hold)
      if e > now and (keeper ~= '' or want == '' or want == f) then
        left = (keeper == '' or keeper == bare(kept)) and e - from or -1
      end
    end
  elseif kind == 'hash' then
    left = extend(key, token, tonumber(lease), '', keeper, false, now, from)
  end
  replies[i] = left
end
if #ARGV > 4 * #KEYS then replies[#KEYS + 1] = clock[1] * 1000000 + clock[2] end
return replies
