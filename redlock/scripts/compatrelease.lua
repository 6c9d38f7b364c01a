-- compatrelease frees a lock that compattake has granted.
--
-- KEYS  1  the lock
-- ARGV  1  token
--       2  fence of the grant that is meant, or ""
--       3  id of the request that it was granted to, or ""
--       4  keeper that it must have, or ""
--       5  PUBLISH or SPUBLISH
--       6  channel that wakes waiters
--       7  the name of the key of the slot's fence
-- Reply the keeper, or "" if it had none: released
--       nil: the token holds nothing here
-- Effects: the hold goes. Waiters are told, and so is the proxy that kept it alive, unless it frees it. With
--       a keeper, a hold that another client has asked for since stays, without its keeper.
local key, token, fence, id, keeper = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local publish, channel, fence_name = ARGV[5], ARGV[6], ARGV[7]
--#include foreign.lua
--#include compatread.lua
--#include compatfree.lua
--#include keeper.lua
--#include keeperchannel.lua
local held, refused = read_compat(key)
if refused then return refused end
if not held or held.owner ~= token or fence ~= '' and fence ~= held.fence or id ~= '' and id ~= held.id then
  return false
end
if keeper ~= '' and keeper_of(held.keeper) ~= keeper then return false end
if keeper ~= '' and held.keeper ~= keeper then
  redis.call('SET', key, table.concat({'lockproxy', held.fence, token, held.id, '-'}, ':'), 'PX',
    math.max(held.left, 1))
  return false
end
free_compat(key, publish, channel)
if held.keeper == '-' then return '' end
local kept = keeper_of(held.keeper)
if keeper == '' then
  redis.pcall('PUBLISH', keeper_channel(fence_name, string.match(kept, '^(.*):')), 'released ' .. kept)
end
return kept
