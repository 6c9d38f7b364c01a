-- number gives a hold its fence, in place of the placeholder that it was granted with: see acquire.lua.
--
-- KEYS  1  the lock
-- ARGV  1  token
--       2  the placeholder, 16 digits
--       3  the fence, which draw.lua has made since the grant
-- Reply 1: the hold has that fence now
--       0: there is no such hold, or it has another fence already
-- Effects: the fence of the hold. Nobody else had the lock between the grant and this, so the fence is higher
--       than those of all earlier grants and lower than those of all later ones.
local key, token, placeholder, new_fence = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--#include look.lua
--#include ownhold.lua
--#include hold.lua
--#include now.lua
if look(key) ~= 'hash' then return 0 end
local field, hold = own_hold(key, token)
if not hold then return 0 end
local expiry, count, fence, since, kept, ids, note = parse_hold(hold)
if fence ~= placeholder or expiry <= in_ms(redis.call('TIME')) then return 0 end
redis.call('HSET', key, field, pack_hold(expiry, count, new_fence, since, kept, ids, note))
return 1
