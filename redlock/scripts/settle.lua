-- settle has a hold be what independent masters have agreed on. See quorumfence.go.
--
-- KEYS  1 the lock   2 the fence of its slot
-- ARGV  1 token   2 id of the request that touched the hold last   3 fence   4 count
--       5 agreed: it is already, and must not be refused; or none
-- Reply 1 the hold has that fence and count; 0 the request has nothing here, or another one came
--       after it; a fence: what is agreed on must be higher than that
-- Effects the fence and the count of that hold; the fence of the slot, if it is lower
local key, fence_key, token, id, f, count = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local fence, agreed = tonumber(f), ARGV[5] == 'agreed'
--#include look.lua
--#include now.lua
local kind, plain, plain_ids, owner = look(key)
if kind == 'none' then return 0 end
local clock = redis.call('TIME')
if kind ~= 'plain' and kind ~= 'hash' then
  --#include foreign.lua
  return foreign(key, kind)
end
if plain and owner ~= token then return 0 end
if plain and count == '1' then
  if string.sub(string.gsub(plain_ids, '=1111111111111111', ''), -#id) ~= id then return 0 end
  if fence < tonumber(plain) and not agreed then return tonumber(plain) - 1 end
  --#include rewrite.lua
  rewrite(key, 'lockproxy 1 ' .. f .. ' ' .. plain_ids .. ' ' .. token)
else
  if plain then
    --#include unfold.lua
    clock = unfold(key, plain, plain_ids, owner)
  end
  local now = in_ms(clock)
  local s = redis.call('HMGET', key, 'o', 'w', 'r:' .. token)
  local field, hold = 'r:' .. token, s[3]
  if s[1] == token then
    field, hold = 'w', s[2]
  end
  if not hold then return 0 end
  --#include hold.lua
  local e, _, own, since, kept, ids, note = parse_hold(hold)
  local made = string.gsub(string.gsub(ids, '=0000000000000000', ''), '=1111111111111111', '')
  if e <= now or string.sub(made, -#id) ~= id then return 0 end
  if own ~= f and not agreed then
    local least = tonumber(own)
    if field ~= 'w' then -- those it shares the lock with have theirs from the same counter
      least = math.max(least, (tonumber(string.match(redis.call('GETRANGE', fence_key, 0, 15), '^%d*')) or 0) + 1)
    end
    if fence < least then return least - 1 end
  end
  --#include evenfull.lua
  even_full(key)
  redis.call('HSET', key, field, pack_hold(e, count, f, since, kept, ids, note))
end
local last = tonumber(string.match(redis.call('GETRANGE', fence_key, 0, 15), '^%d*')) or 0
if last < fence then redis.call('SETRANGE', fence_key, 0, f) end
return 1
