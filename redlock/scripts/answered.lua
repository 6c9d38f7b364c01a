-- answered notes the answer to a release that could not note it itself, because the lock was its only key; or
-- it looks for such an answer. See release.lua.
--
-- KEYS  1  the fence of the slot
-- ARGV  1  id of the release
--       2  its answer: - for counted down, a blank for released; left out to look for it
-- Reply 1 or 0: the answer, as of release.lua
--       nil: none is known
-- Effects: the answer is known, as it is of releases that have both keys.
local fence_key, id, mark = KEYS[1], ARGV[1], ARGV[2]
--#include remember.lua
--#include recall.lua
if not mark then return recall(fence_key, id) or false end
if not recall(fence_key, id) then remember(fence_key, mark, id) end
return mark == '-' and 0 or 1
