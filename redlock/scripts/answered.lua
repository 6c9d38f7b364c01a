-- answered looks for the answer to a release that came before, for one that could not look itself, because
-- the lock was its only key: see release.lua.
--
-- KEYS  1  the fence of the slot
-- ARGV  1  id of the release
-- Reply 1 or 0: the answer, as of release.lua
--       nil: none is known
-- Effects: none
local fence_key, id = KEYS[1], ARGV[1]
--#include recall.lua
return recall(fence_key, id) or false
