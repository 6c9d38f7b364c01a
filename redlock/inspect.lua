-- inspect reads a lock.
--
-- KEYS  1 the lock
-- Reply {now ms, field, value, ...}: the whole hash, also of a plain lock; nil: there is none
-- Effects none
local key = KEYS[1]
--#include kind.lua
if kind == 'none' then return false end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
--#include plain.lua
if plain then
  return {string.format('%.0f', now), 'v', '1', 'o', owner, 'w',
    table.concat({now + redis.call('PTTL', key), 1, plain, math.floor(plain / 1000), '-', plain_ids}, ' ')}
end
if redis.call('HGET', key, 'v') ~= '1' then
  --#include foreign.lua
end
local all = redis.call('HGETALL', key)
table.insert(all, 1, string.format('%.0f', now))
return all
