-- compatlook says who holds a lock that is kept in the form of another library.
--
-- KEYS  1  the lock
-- Reply nil: nobody
--       {text, ms that are left or -1, fence or 0, token or "", keeper or ""}
-- Effects: none
local key = KEYS[1]
--#include foreign.lua
--#include compatread.lua
local held, refused = read_compat(key)
if refused then return refused end
if not held then return false end
return {string.sub(held.text, 1, 200), held.left, tonumber(held.fence or '0'),
  held.owner or '', held.keeper or ''}
