-- draw makes the next fence of a slot, for a lock that was granted with a placeholder: see acquire.lua.
--
-- KEYS  1  the fence of the slot
-- Reply the fence
-- Effects: no other grant gets that fence. Sent again, it makes another one.
local fence_key = KEYS[1]
--#include fence.lua
return tonumber(next_fence(fence_key, redis.call('TIME')))
