-- free deletes a plain lock that is still what it was when it was granted. That is nearly every UNLOCK. How a
-- plain lock is kept is described on top of acquire.lua.
--
-- KEYS  1  the lock
-- ARGV  1  the end of its value, behind the fence, which is 52 bytes: the request that was granted the lock,
--          which no other grant has, and the token
-- Reply 1: it was there, and is gone
--       nil: it has gone already, or is something else by now
-- Effects: the hold goes. Nobody waits for a plain lock. Sent again it does nothing, and no note is left that
--       it has run: see redlock/single/free.go.
local key, ending = KEYS[1], ARGV[1]
if redis.pcall('GETRANGE', key, '-52', '-1') == ending then return redis.call('DEL', key) end
