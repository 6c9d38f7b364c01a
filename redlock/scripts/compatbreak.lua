-- compatbreak frees a lock that is kept in the form of another library, whoever holds it.
--
-- KEYS  1  the lock
-- ARGV  1  PUBLISH or SPUBLISH
--       2  channel that wakes waiters
--       3  the name of the key of the slot's fence
-- Reply 1: it was held; 0: it was free
-- Effects: the hold goes, waiters are told, and the proxy that kept it alive too.
local key, publish, channel, fence_name = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--#include foreign.lua
--#include compatread.lua
--#include compatfree.lua
--#include keeper.lua
--#include keeperchannel.lua
--#include compatbroken.lua
local held, refused = read_compat(key)
if refused then return refused end
if not held then return 0 end
free_compat(key, publish, channel)
tell_broken(held, fence_name)
return 1
