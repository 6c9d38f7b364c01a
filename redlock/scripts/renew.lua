-- renew makes the lease of a hold longer, never shorter.
--
-- KEYS  1 the lock
-- ARGV  1 token   2 lease, ms   3 fence of the grant that is meant, or id of the request, or ""   4 keeper that the
--       hold has from now on, or = and the one that whoever asks is already, or ""   5 clock: it is wanted
-- Reply ms that remain, or with a new keeper {ms that remain, fence}; 0: the token holds nothing here;
--       with 5 always {ms that remain, fence or 0, clock in µs}
-- Effects the lease of that hold, and of the key; its keeper
local key, token, lease, want, keeper, timed = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] or '', ARGV[5]
--#include look.lua
--#include now.lua
--#include hold.lua
--#include meant.lua
--#include extend.lua
local kind, plain, plain_ids, owner = look(key)
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local nothing = timed and {0, 0, micros} or 0
if kind == 'none' then return nothing end
if not plain and (kind ~= 'hash' or redis.call('HGET', key, 'v') ~= '1') then
  --#include foreign.lua
  return foreign(key, kind)
end
if plain and owner ~= token then return nothing end
if plain then
  --#include unfold.lua
  clock = unfold(key, plain, plain_ids, owner)
end
local now, from = in_ms(clock)
local left, f = extend(key, token, lease, want, keeper, true, now, from)
local renewed = left > 0 and keeper ~= '' and string.sub(keeper, 1, 1) ~= '='
if timed then return {left, renewed and tonumber(f) or 0, micros} end
if renewed then return {left, tonumber(f)} end
return left
