-- compatlook says who holds a lock that is kept in the form of another library.
--
-- KEYS  1  the lock
-- ARGV  1  form: set or redisson
-- Reply nil: nobody
--       {text, count, ms that are left or -1, fence or 0, token or "", keeper or ""}
-- Effects: none
local key, form = KEYS[1], ARGV[1]
--#include foreign.lua
--#include compatread.lua
local held, refused = read_compat(form, key)
if refused then return refused end
if not held then return false end
return {string.sub(held.text, 1, 200), held.count, held.left, tonumber(held.fence or '0'),
  held.owner or '', held.keeper or ''}
