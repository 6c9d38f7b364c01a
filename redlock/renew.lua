-- renew makes the lease of a hold longer, never shorter.
--
-- KEYS  1 the lock
-- ARGV  1 token   2 lease, ms   3 fence of the grant that is meant, or ""   4 keeper that the
--       hold has from now on, or = and the one that whoever asks is already, or ""
-- Reply ms that remain, or with a new keeper {ms that remain, fence}; 0: the token holds nothing here
-- Effects the lease of that hold, and of the key; its keeper
local key, keeper = KEYS[1], ARGV[4] or ''
--#include kind.lua
if kind == 'none' then return 0 end
local clock = redis.call('TIME')
--#include now.lua
--#include plain.lua
if plain and owner ~= ARGV[1] then return 0 end
--#include unfold.lua
if not plain and redis.call('HGET', key, 'v') ~= '1' then
  --#include foreign.lua
end
--#include hold.lua
--#include extend.lua
local left, f = extend(key, ARGV[1], tonumber(ARGV[2]), ARGV[3], keeper, true)
if left > 0 and keeper ~= '' and string.sub(keeper, 1, 1) ~= '=' then return {left, tonumber(f)} end
return left
