-- compatrenew makes leases of holds longer that compattake has granted, never shorter. All are of one slot.
--
-- KEYS  the locks
-- ARGV  1  the name of the key of the slot's fence
--       behind them five for each lock: token; lease in ms, 0 leaves it; fence of the grant that is meant, or
--       ""; keeper that it must have, or ""; keeper that it gets, as for compattake, or ""
-- Reply for each lock {left, fence}: ms that remain; 0: the token holds nothing here; -1: it has another
--       keeper
-- Effects: the leases and the keepers of those holds. The proxy of a keeper before is told.
--#include foreign.lua
--#include compatread.lua
--#include keeper.lua
--#include keeperafter.lua
--#include keepertaken.lua
local fence_name, replies = ARGV[1], {}
for i, key in ipairs(KEYS) do
  local token, lease, fence, had, gets = unpack(ARGV, 5 * i - 3, 5 * i + 1)
  local held = read_compat(key)
  if not held or held.owner ~= token or fence ~= '' and fence ~= held.fence then
    replies[i] = {0, 0}
  elseif had ~= '' and keeper_of(held.keeper) ~= had then
    replies[i] = {-1, 0}
  else
    local left, keeper = held.left - 1, held.keeper
    if had == '' and lease ~= '0' then
      keeper = keeper_after(keeper, gets)
      tell_taken(fence_name, held.keeper, keeper)
    end
    if tonumber(lease) > left or keeper ~= held.keeper then
      left = math.max(left, tonumber(lease))
      redis.call('SET', key, table.concat({'lockproxy', held.fence, token, held.id, keeper}, ':'), 'PX',
        left + 1)
    end
    replies[i] = {left, tonumber(held.fence)}
  end
end
return replies
