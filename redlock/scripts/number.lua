-- number gives a hold its fence, which it was granted without: see acquire.lua.
--
-- KEYS  1 the lock
-- ARGV  1 token   2 what stands for the fence, 16 digits   3 the fence, which draw.lua has taken since
-- Reply 1 the hold has it; 0 there is no such hold, or it has one already
-- Effects the fence of the hold. Between the grant and this nobody else had the lock, so the fence is higher than
--         those of all earlier grants and lower than those of all later ones
local key, token, stands, f = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--#include look.lua
--#include hold.lua
--#include now.lua
if look(key) ~= 'hash' then return 0 end
local s = redis.call('HMGET', key, 'o', 'w', 'r:' .. token)
local field, hold = 'r:' .. token, s[3]
if s[1] == token then
  field, hold = 'w', s[2]
end
if not hold then return 0 end
local e, n, own, since, kept, ids, note = parse_hold(hold)
if own ~= stands or e <= in_ms(redis.call('TIME')) then return 0 end
redis.call('HSET', key, field, pack_hold(e, n, f, since, kept, ids, note))
return 1
