-- cancel takes back what one LOCK has made: its place in the queue, or its hold,
-- or one re-entry, or that a reader became the writer. It takes nothing back that a later answer has
-- told of: of another LOCK of the token, whose count includes it; of an UNLOCK that said 0, after which
-- the lock must still be held; of CHECK; or, if it is all that is left of the hold, of RENEW.
-- It is only noted then, and goes when the LOCKs that were told of it are cancelled too.
--
-- KEYS  1 the lock   2 the fence of its slot; or none, as of release.lua
-- ARGV  1 token   2 id of the request   3 proxy   4 PUBLISH or SPUBLISH   5 what becomes of
--       the lock, as release.lua says
-- Reply 1 something was taken back; 0 there was nothing; {1, id, fence, ttl ms}: the
--       lock went on to the waiter id of this proxy
-- Effects sent again it does nothing
local key, fence_key = KEYS[1], KEYS[2]
local token, id, me, publish, after = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
-- What becomes of the marks of hold requests.
local cancelled = {['+'] = '!', ['^'] = '?', ['*'] = '&', ['='] = ''}
--#include look.lua
--#include now.lua
local kind, _, ids, owner = look(key)
if kind == 'plain' then
  if owner ~= token or string.match(ids, '%+([%w,]+)$') ~= id then return 0 end
  redis.call('DEL', key)
  if after == 'tell' then redis.call(publish, key, id) end
  return 1
end
if kind ~= 'hash' then return 0 end
local s = redis.call('HMGET', key, 'v', 'o', 'w', 's', 'r:' .. token, 'i:' .. id)
if s[1] ~= '1' then return 0 end
local clock = redis.call('TIME')
local now, from = in_ms(clock)
local writer = s[3]
--#include hold.lua
--#include evenfull.lua
--#include state.lua
--#include queue.lua
--#include readers.lua
--#include livereaders.lua
--#include enlist.lua
--#include passon.lua
local lock = load_state({key = key, fence_key = fence_key, clock = clock, now = now, from = from,
  me = me, publish = publish, place = tonumber(s[6])}, s[4], writer)
local writing_e = writer and tonumber(string.match(writer, '^%d+')) or 0
local done = 0
if lock.place then
  drop(lock, lock.place, id)
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
  local becomes = at and cancelled[string.sub(ids, at - 1, at - 1)]
  if e > now and becomes then
    done = 1
    even_full(key)
    ids = string.sub(ids, 1, at - 2) .. becomes .. string.sub(ids, becomes == '' and at + #id or at)
    local renewed
    ids, renewed = string.gsub(ids, '=0000000000000000', '')
    -- What is last goes if it is cancelled: all answers since are those of requests that have gone
    -- already. The last count does not go after a renewal, which said that the hold lasts.
    local writes = field == 'w'
    while n > 0 do
      local others, mark = string.match(ids, '^(.*)([!?&])[%w,]+$')
      if not mark or mark ~= '?' and n == 1 and renewed > 0 then break end
      ids = others
      if mark ~= '?' then n = n - 1 end
      if mark ~= '!' then reads_on = writes end
    end
    if renewed > 0 then ids = ids .. '=0000000000000000' end
    freed = n == 0
    if freed and writes then
      writing_e, reads_on = 0, false
    elseif freed then
      redis.call('HDEL', key, field)
      without(lock, e)
    elseif reads_on then
      redis.call('HDEL', key, 'o', 'w')
      redis.call('HSET', key, 'r:' .. token, pack_hold(e, n, f, since, kept, ids, note), enlist(lock, 'r:' .. token))
      s[2], writing_e, lock.readers, lock.readers_end = false, 0, 1, e
    else
      redis.call('HSET', key, field, pack_hold(e, n, f, since, kept, ids, note))
    end
  end
end
if done == 0 then return 0 end
if writing_e <= now and (freed or lock.place or reads_on) then
  if after == 'tell' then redis.call(publish, key, id) end
  return pass_on(lock, s[2], after ~= 'offer')
end
if lock.place then
  if lock.waiters == 0 and lock.readers == 0 then lock.expires = writing_e end -- no longer than the writer
  save(lock)
end
return 1
