-- inspect reads a lock.
--
-- KEYS  1 the lock
-- ARGV  1 token whose owner is told what it holds, and nobody else; or "", or none
--       and to go on where the answer before this one ended: 2 its next   3 how many readers were told so far
-- Reply {now in microseconds, field, value, ...}: the fields o, w and r:*, also of a plain lock, and as waiters how
--       many wait: of the first 500 places those that live, of the others all that the lock counts; nil: there is
--       none; or, instead of waiters, next: there are more readers
-- Effects with a token: what it holds now is not taken back any more
local key, token, at, told = KEYS[1], ARGV[1] or '', ARGV[2], ARGV[3]
--#include look.lua
--#include now.lua
local kind, plain, plain_ids, owner = look(key)
if kind == 'none' then return false end
local clock = redis.call('TIME')
local now = in_ms(clock)
local us = clock[1] .. string.sub('00000' .. clock[2], -6)
if kind ~= 'plain' and kind ~= 'hash' then
  --#include foreign.lua
  return foreign(key, kind)
end
if plain then
  if owner == token and string.sub(plain_ids, -17) ~= '=1111111111111111' then
    plain_ids = plain_ids .. '=1111111111111111'
    --#include rewrite.lua
    rewrite(key, 'lockproxy 1 ' .. plain .. ' ' .. plain_ids .. ' ' .. token)
  end
  return {us, 'v', '1', 'o', owner, 'w',
    table.concat({now + redis.call('PTTL', key), 1, plain, math.floor(plain / 1000), '-', plain_ids}, ' ')}
end
if redis.call('HGET', key, 'v') ~= '1' then
  --#include foreign.lua
  return foreign(key, kind)
end
if token ~= '' then
  --#include hold.lua
  local s = redis.call('HMGET', key, 'o', 'w', 'r:' .. token)
  local field, hold = 'r:' .. token, s[3]
  if s[1] == token then
    field, hold = 'w', s[2]
  end
  if hold then
    local e, n, f, since, kept, ids, note = parse_hold(hold)
    local others, renewed = string.gsub(ids, '=0000000000000000', '')
    if e > now and string.sub(others, -17) ~= '=1111111111111111' then
      ids = string.gsub(others, '=1111111111111111', '') .. '=1111111111111111' ..
        string.rep('=0000000000000000', renewed)
      --#include evenfull.lua
      even_full(key)
      redis.call('HSET', key, field, pack_hold(e, n, f, since, kept, ids, note))
    end
  end
end
--#include readers.lua
local all = {us}
local function add(fields, values)
  for i, field in ipairs(fields) do
    if values[i] then
      all[#all + 1] = field
      all[#all + 1] = values[i]
    end
  end
end
local state = redis.call('HMGET', key, 'o', 'w', 's')
add({'o', 'w'}, state)
if not state[3] then return all end
local c, h, t, k = string.match(state[3], '^(%d+) (%d+) (%d+) (%d+)')
if token ~= '' then
  add({'r:' .. token}, redis.call('HMGET', key, 'r:' .. token))
  return all
end
for fields, holds, seen, enough in reader_holds(key, math.max(c - (told or 0), 0), tonumber(at)) do
  add(fields, holds)
  if enough then
    add({'next'}, {tostring(seen)})
    return all
  end
end
h, t, k = tonumber(h), tonumber(t), tonumber(k)
if k == 0 then return all end
local places, alive = {}, {}
for seq = h, math.min(t, h + 500) - 1 do places[#places + 1] = 'q:' .. seq end
for _, entry in ipairs(redis.call('HMGET', key, unpack(places))) do
  if entry then
    local proxy, deadline = string.match(entry, '^%a %S+ (%S+) (%d+)')
    if alive[proxy] == nil then
      alive[proxy] = (tonumber(redis.call('HGET', key, 'p:' .. proxy)) or 0) > now
    end
    if not alive[proxy] or tonumber(deadline) <= now then k = k - 1 end
  end
end
add({'waiters'}, {tostring(k)})
return all
