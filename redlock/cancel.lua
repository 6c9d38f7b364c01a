-- cancel takes back what one LOCK has made: its place in the queue, or its hold,
-- or one re-entry, or that a reader became the writer. What other requests of the token made
-- stays, also when this one made the hold and a later one was told of it.
--
-- KEYS  1 the lock   2 the fence of its slot
-- ARGV  1 token   2 id of the request   3 proxy   4 PUBLISH or SPUBLISH   5 1: nobody may get
--       the lock by this; 2: there is no queue, so all who listen are told if the lock is free
-- Reply 1 something was taken back; 0 there was nothing; {1, id, fence, ttl ms}: the
--       lock went on to the waiter id of this proxy
-- Effects sent again it does nothing
local key, token, id = KEYS[1], ARGV[1], ARGV[2]
--#include kind.lua
if kind == 'string' then
  local ids, owner = string.match(redis.call('GET', key), '^lockproxy 1 %d+ (%S+) (.*)$')
  if owner ~= token or not string.find(ids, '+' .. id, 1, true) then return 0 end
  redis.call('DEL', key)
  if ARGV[5] == '2' then redis.call(ARGV[4], key, id) end
  return 1
end
if kind ~= 'hash' then return 0 end
local s = redis.call('HMGET', key, 'v', 'o', 'w', 's', 'r:' .. token, 'i:' .. id)
if s[1] ~= '1' then return 0 end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local writer, packed, place, me, publish, near = s[3], s[4], tonumber(s[6]), ARGV[3], ARGV[4], ARGV[5] ~= '1'
--#include hold.lua
--#include state.lua
--#include passon.lua
local writing_e = writer and tonumber(string.match(writer, '^%d+')) or 0
local done = 0
if place then
  drop(place, id)
  done = 1
end
local field, hold = 'r:' .. token, s[5]
if s[2] == token and writing_e > now then
  field, hold = 'w', writer
end
local freed, reads_on = false, false
if hold then
  local e, n, f, since, kept, ids, note = parse_hold(hold)
  local at = string.find(ids, id, 1, true)
  local mark = at and string.sub(ids, at - 1, at - 1)
  if e > now and at and string.find('+=^*', mark, 1, true) then
    done = 1
    ids = string.sub(ids, 1, at - 2) .. string.sub(ids, at + #id)
    local heir, as -- the first later request that was told of the hold; a renewal if it is all there is
    for i, did, who in string.gmatch(ids, '()([=^])(%w+)') do
      if i >= at - 1 and not heir and (n == 1 or who ~= '0000000000000000') then heir, as = i, did end
    end
    local up, next_at, next_did = mark == '^' or mark == '*', nil, nil -- of what made it a writer: who was told so later
    for i, did, who in string.gmatch(up and ids or '', '()([=+^*])(%w+)') do
      if i >= at - 1 and not next_at and who ~= '0000000000000000' then next_at, next_did = i, did end
    end
    if next_did == '=' or next_did == '+' then
      local made = (mark == '^' and next_did == '=') and '^' or '*'
      ids = string.sub(ids, 1, next_at - 1) .. made .. string.sub(ids, next_at + 1)
    end
    if mark == '*' and next_did == '=' then -- it has the count, too
    elseif mark == '+' and as == '=' then
      ids = string.sub(ids, 1, heir - 1) .. '+' .. string.sub(ids, heir + 1)
    elseif mark == '+' and as then -- it made a writer of the reader: it stays one
    elseif mark == '+' or mark == '*' then
      n = n - 1
      freed = n == 0
    end
    reads_on = field == 'w' and up and not next_at and not freed
    if freed and field == 'w' then
      writing_e = 0
    elseif freed then
      redis.call('HDEL', key, field)
      without(e)
    elseif reads_on then
      redis.call('HDEL', key, 'o', 'w')
      s[2], writing_e, c, ce = false, 0, 1, e
      save('r:' .. token, pack_hold(e, n, f, since, kept, ids, note))
    else
      redis.call('HSET', key, field, pack_hold(e, n, f, since, kept, ids, note))
    end
  end
end
if done == 0 then return 0 end
if writing_e <= now and (freed or place or reads_on) then
  if ARGV[5] == '2' then redis.call(publish, key, id) end
  return pass_on(s[2])
end
if place then
  if k == 0 and c == 0 then x = writing_e end -- no longer than the writer
  save()
end
return 1
