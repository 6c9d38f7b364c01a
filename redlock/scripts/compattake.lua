-- compattake takes a lock that is kept in the form of another library, so that both exclude each other.
--
-- KEYS  1  the lock: the very key that the library uses
--       2  the fence of its slot
-- ARGV  1  token
--       2  lease, ms
--       3  id of the request
--       4  keeper; or = and the keeper that the client's connection has for this hold already; or ""
--       5  1: only if the token holds the lock already; or 0
--       6  if the hold of others is to end (BREAK): 1
-- Reply {1, fence, ttl ms}: granted
--       {1, fence, ttl ms, 1}: granted, and the hold of others has ended by this
--       {0, ms}: others hold it, for so many ms; -1: without end
--       {2}: nobody holds it, or BREAK would end the hold of others; and the request is content with a hold
--          that it has
-- Effects: one hold, however often the request is sent. The same token again gets the same fence, and a lease
--       that is no shorter. With BREAK the proxy that kept the hold of others alive is told.
--
-- How such a lock is kept
--
-- A string that SET NX PX has made. A library compares it with a random value of its own.
-- What lockproxy writes there is "lockproxy:fence:token:id:keeper", where token is what OwnerOf makes of the
-- client's token, and keeper is - for none. id is the last request, with a + behind it if the token had asked
-- before: then taking back the request leaves the hold. No library has such a value.
local key, fence_key, token, lease = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local id, keeper, own, breaks = ARGV[3], ARGV[4], ARGV[5] == '1', ARGV[6] == '1'
--#include foreign.lua
--#include compatread.lua
--#include keeper.lua
--#include keeperafter.lua
--#include fence.lua
local held, refused = read_compat(key)
if refused then return refused end
local others = held and held.owner ~= token
if others and not breaks then return {0, held.left} end
if own and (others or not held) then return {2} end
local fence
if held and not others then
  fence, keeper = held.fence, keeper_after(held.keeper, keeper)
  --#include keepertaken.lua
  tell_taken(fence_key, held.keeper, keeper)
  if held.id ~= id then id = id .. '+' end
  lease = math.max(lease, held.left - 1)
else
  fence = next_fence(fence_key, redis.call('TIME'))
  if keeper == '' or string.sub(keeper, 1, 1) == '=' then keeper = '-' end
end
-- One ms more, because Redis counts the millisecond that runs as a whole one.
redis.call('SET', key, table.concat({'lockproxy', fence, token, id, keeper}, ':'), 'PX', lease + 1)
if not others then return {1, tonumber(fence), lease} end
--#include keeperchannel.lua
--#include compatbroken.lua
tell_broken(held, fence_key)
return {1, tonumber(fence), lease, 1}
