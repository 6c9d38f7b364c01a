-- renew makes the lease of a hold longer, never shorter.
--
-- KEYS  1 the lock
-- ARGV  1 token   2 lease, ms   3 fence of the grant that is meant, or id of the request, or ""   4 keeper that the
--       hold has from now on, or = and the one that whoever asks is already, or ""   5 1: the clock is wanted
-- Reply ms that remain, or with a new keeper {ms that remain, fence}; 0: the token holds nothing here;
--       with 5 always {ms that remain, fence or 0, clock in µs}
-- Effects the lease of that hold, and of the key; its keeper
local key, keeper = KEYS[1], ARGV[4] or ''
--#include kind.lua
local clock = redis.call('TIME')
local nothing = ARGV[5] and {0, 0, clock[1] * 1000000 + clock[2]} or 0
if kind == 'none' then return nothing end
--#include now.lua
--#include plain.lua
if plain and owner ~= ARGV[1] then return nothing end
--#include unfold.lua
if not plain and redis.call('HGET', key, 'v') ~= '1' then
  --#include foreign.lua
end
--#include hold.lua
--#include meant.lua
--#include extend.lua
local left, f = extend(key, ARGV[1], tonumber(ARGV[2]), ARGV[3], keeper, true)
local renewed = left > 0 and keeper ~= '' and string.sub(keeper, 1, 1) ~= '='
if ARGV[5] then return {left, renewed and tonumber(f) or 0, nothing[3]} end
if renewed then return {left, tonumber(f)} end
return left
