-- answered notes what a release was answered that had the lock alone as its key, or says it: see release.lua.
--
-- KEYS  1 the fence of the slot
-- ARGV  1 id of the release   2 its answer: - for counted down, a blank for released; or none: it is asked for
-- Reply 1 or 0, what it was answered; nil: it is not known
-- Effects the answer is known as release.lua says
local fence_key, id, mark = KEYS[1], ARGV[1], ARGV[2]
--#include remember.lua
--#include recall.lua
if not mark then return recall(fence_key, id) or false end
if not recall(fence_key, id) then remember(fence_key, mark, id) end
return mark == '-' and 0 or 1
