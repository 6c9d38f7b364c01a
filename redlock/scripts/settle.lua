-- settle gives a hold the fence and the count that a majority of independent masters is to agree on. Why
-- fences are unique and rise by that is proven in redlock/quorum/fence.go.
--
-- KEYS  1  the lock
--       2  the fence of its slot
-- ARGV  1  token
--       2  id of the request that touched the hold last
--       3  fence
--       4  count
--       5  agreed: a majority has agreed on it already, so it must not be refused; or left out
-- Reply 1: the hold has that fence and count
--       0: the request has no hold here, or another request came after it
--       a fence: refused; what is agreed on must be higher than this
-- Effects: the fence and the count of that hold; the fence of the slot, if it is lower.
local key, fence_key, token, id = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local new_fence, new_count, agreed = ARGV[3], ARGV[4], ARGV[5] == 'agreed'
local new_number = tonumber(new_fence)
if #new_fence ~= 16 or new_fence > '9007199254740992' then return {err = 'ERR no fence: ' .. new_fence} end
--#include plain.lua
--#include now.lua
--#include lastfence.lua
local plain_fence, plain_ids, plain_owner = read_plain(redis.call('MGET', key)[1])
if plain_fence and plain_owner ~= token then return 0 end
if plain_fence and new_count == '1' then
  local without_checks = string.gsub(plain_ids, '=1111111111111111', '')
  if string.sub(without_checks, -#id) ~= id then return 0 end
  if new_number < tonumber(plain_fence) and not agreed then return tonumber(plain_fence) - 1 end
  --#include rewrite.lua
  rewrite(key, 'lockproxy 1 ' .. new_fence .. ' ' .. plain_ids .. ' ' .. token)
else
  --#include unfold.lua
  local now = in_ms(unfold(key, plain_fence, plain_ids, plain_owner))
  --#include ownhold.lua
  --#include hold.lua
  --#include islock.lua
  --#include foreign.lua
  local field, hold, _, _, _, version = own_hold(key, token)
  if not hold then return not is_lock(version) and foreign(key) or 0 end
  local expiry, _, fence, since, kept, ids, note = parse_hold(hold)
  local requests = string.gsub(string.gsub(ids, '=0000000000000000', ''), '=1111111111111111', '')
  if expiry <= now or string.match(requests, '([%w,]+)[:%d]*$') ~= id then return 0 end
  if fence ~= new_fence and not agreed then
    local least = tonumber(fence)
    -- The other readers have fences of the same slot, so this one must be higher than the last of them.
    if field ~= 'w' then least = math.max(least, last_fence(fence_key) + 1) end
    if new_number < least then return least - 1 end
  end
  --#include allowwrites.lua
  allow_writes(key)
  redis.call('HSET', key, field, pack_hold(expiry, new_count, new_fence, since, kept, ids, note))
end
if last_fence(fence_key) < new_number then redis.call('SETRANGE', fence_key, 0, new_fence) end
return 1
