-- renew makes the lease of a hold longer, never shorter.
--
-- KEYS  1  the lock
-- ARGV  1  token
--       2  lease, ms
--       3  fence of the grant that is meant; or the id of this request; or ""
--       4  keeper that the hold has from now on; or = and the keeper that the client's connection has for it
--          already; or ""
--       5  the name of the key of the slot's fence, if a keeper is given
--       6  clock, if the reply should have it
-- Reply ms that remain; with a new keeper {ms that remain, fence}; with the clock always {ms that remain,
--       fence or 0, clock in µs}
--       0 ms: the token holds nothing here
-- Effects: the lease of the hold and of the key; the keeper. The proxy of the keeper before is told.
local key, token, lease, want = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local keeper, fence_name, timed = ARGV[4] or '', ARGV[5], ARGV[6]
--#include look.lua
--#include now.lua
--#include hold.lua
--#include keeper.lua
--#include keeperafter.lua
--#include meant.lua
--#include extend.lua
local kind, plain_fence, plain_ids, plain_owner = look(key)
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local nothing = timed and {0, 0, micros} or 0
if kind == 'none' then return nothing end
--#include islock.lua
if not plain_fence and (kind ~= 'hash' or not is_lock(redis.call('HGET', key, 'v'))) then
  --#include foreign.lua
  return foreign(key)
end
if plain_fence and plain_owner ~= token then return nothing end
if plain_fence then
  --#include unfold.lua
  clock = unfold(key, plain_fence, plain_ids, plain_owner)
end
local now, from = in_ms(clock)
local left, fence, before = extend(key, token, lease, want, keeper, true, now, from)
local new_keeper = left > 0 and keeper ~= '' and string.sub(keeper, 1, 1) ~= '='
if new_keeper then
  --#include keepertaken.lua
  tell_taken(fence_name, before, keeper)
end
if timed then return {left, new_keeper and tonumber(fence) or 0, micros} end
if new_keeper then return {left, tonumber(fence)} end
return left
