-- inspect reads a lock.
--
-- KEYS  1  the lock
-- ARGV  1  token, to read only its own hold and that of the writer; or "" or left out
--          To go on where the answer before this one ended:
--       2  what that answer gave as next
-- Reply {now in µs, field, value, ...}: the fields o, w and r:*, in the same form for a plain lock; v of
--       a semaphore; and
--       waiters, how many wait. Of the first 500 places only living waiters count, of the others all.
--       In place of waiters, next: there are more readers.
--       nil: there is no such lock
-- Effects: with a token, the requests that made its hold cannot be cancelled any more.
local key, token, at = KEYS[1], ARGV[1] or '', ARGV[2]
--#include plain.lua
--#include now.lua
local plain_fence, plain_ids, plain_owner = read_plain(redis.call('MGET', key)[1])
local clock = redis.call('TIME')
local now = in_ms(clock)
local micros = clock[1] .. string.sub('00000' .. clock[2], -6)
if plain_fence then
  if plain_owner == token and string.sub(plain_ids, -17) ~= '=1111111111111111' then
    plain_ids = plain_ids .. '=1111111111111111'
    --#include rewrite.lua
    rewrite(key, 'lockproxy 1 ' .. plain_fence .. ' ' .. plain_ids .. ' ' .. token)
  end
  local expiry, since = now + redis.call('PTTL', key), math.floor(plain_fence / 1000)
  return {micros, 'v', '1', 'o', plain_owner, 'w',
    table.concat({expiry, 1, plain_fence, since, '-', plain_ids}, ' ')}
end
--#include islock.lua
--#include ownhold.lua
local field, hold, packed, owner, writer, version = own_hold(key, token)
if not is_lock(version) then
  --#include foreign.lua
  return foreign(key) or false
end
if hold then
  --#include hold.lua
  local expiry, count, fence, since, kept, ids, note = parse_hold(hold)
  local others, renewed = string.gsub(ids, '=0000000000000000', '')
  if expiry > now and string.sub(others, -17) ~= '=1111111111111111' then
    ids = string.gsub(others, '=1111111111111111', '') .. '=1111111111111111' ..
      string.rep('=0000000000000000', renewed)
    --#include allowwrites.lua
    allow_writes(key)
    redis.call('HSET', key, field, pack_hold(expiry, count, fence, since, kept, ids, note))
  end
end
--#include readers.lua
local all = version == '1' and {micros} or {micros, 'v', version}
local function add(fields, values)
  for i, field in ipairs(fields) do
    if values[i] then
      all[#all + 1] = field
      all[#all + 1] = values[i]
    end
  end
end
add({'o', 'w'}, {owner, writer})
if not packed then return all end
if token ~= '' then
  if field ~= 'w' then add({field}, {hold}) end
  return all
end
local head, tail, waiters = string.match(packed, '^%d+ (%d+) (%d+) (%d+)') -- as state.lua says
for fields, holds, looked_at, enough in reader_holds(key, tonumber(at)) do
  add(fields, holds)
  if enough then
    add({'next'}, {tostring(looked_at)})
    return all
  end
end
head, tail, waiters = tonumber(head), tonumber(tail), tonumber(waiters)
if waiters == 0 then return all end
local places, alive = {}, {}
for place = head, math.min(tail, head + 500) - 1 do places[#places + 1] = 'q:' .. place end
for _, entry in ipairs(redis.call('HMGET', key, unpack(places))) do
  if entry then
    local proxy, deadline = string.match(entry, '^%a %S+ (%S+) (%d+)')
    if alive[proxy] == nil then
      alive[proxy] = (tonumber(redis.call('HGET', key, 'p:' .. proxy)) or 0) > now
    end
    if not alive[proxy] or tonumber(deadline) <= now then waiters = waiters - 1 end
  end
end
add({'waiters'}, {tostring(waiters)})
return all
