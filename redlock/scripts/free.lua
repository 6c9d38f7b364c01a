-- free deletes a plain lock that is still what it was when it was granted. That is nearly every UNLOCK. How a
-- plain lock is kept is described on top of acquire.lua.
--
-- KEYS  1  the lock
-- ARGV  1  the value that it was granted with. It has a fence, so no other grant has the same.
-- Reply 1: it was there, and is gone
--       nil: it has gone already, or is something else by now
-- Effects: the hold goes. Nobody waits for a plain lock. Sent again it does nothing, and no note is left that
--       it has run: see redlock/single/free.go.
local key, value = KEYS[1], ARGV[1]
if redis.pcall('GET', key) == value then return redis.call('DEL', key) end
