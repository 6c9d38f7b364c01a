-- claim takes a lock on one of several independent masters, changes how it is held, or says that it is held. It is what
-- acquire is on one Redis, but there is no queue, and a majority has to agree on the fence. See quorumattempt.go.
--
-- KEYS  1 the lock   2 the fence of its slot
-- ARGV  1 token   2 lease, ms   3 mode: w or r   4 request id   5 reentrant: 1 or 0   6 fence that the grant should
--       have, or "": nothing may be granted but to the token of a hold   7 most readers   8 keeper, or = and the one
--       that whoever asks is already, or ""   9 meta or ""
-- Reply granted {fence, ttl ms, count, 1 if the token did not hold it so before, else 0, clock in µs};
--       held {-1 for a reader that wants to write, else 0, ms that it lasts, who holds it: the request that made it
--       the writer, r for readers, else "", clock in µs}
-- Effects one hold for each request id, however often it is sent
--
-- Locks and holds are as acquire.lua describes them.
local key, fence_key = KEYS[1], KEYS[2]
local token, lease, mode, id, reentrant = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5] == '1'
local wanted, most, relying, meta = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8], ARGV[9]
local keeper = string.sub(relying, 1, 1) == '=' and '' or relying
local note = meta == '' and '' or ' ' .. meta
--#include now.lua
--#include fence.lua
local clock = redis.call('TIME')
local now, from = in_ms(clock)
local micros = clock[1] * 1000000 + clock[2]
--#include look.lua
local kind, plain, plain_ids, owner = look(key)

if kind == 'none' then
  if not wanted then return {0, 1, '', micros} end
  local f = next_fence(fence_key, clock, wanted)
  --#include create.lua
  create(key, mode, token, f, lease, now, from, keeper, id, note)
  return {tonumber(f), lease, 1, 1, micros}
end
--#include foreign.lua
if kind ~= 'plain' and kind ~= 'hash' then return foreign(key, kind) end
if plain and owner ~= token then
  return {0, math.max(redis.call('PTTL', key), 1), string.match(plain_ids, '%+([%w,]+)') or '', micros}
end
if plain then
  --#include unfold.lua
  clock = unfold(key, plain, plain_ids, owner)
  now, from = in_ms(clock)
end
local s = redis.call('HMGET', key, 'v', 'o', 'w', 's', 'r:' .. token)
if s[1] ~= '1' then return foreign(key, kind) end
--#include hold.lua
--#include grantedto.lua
--#include again.lua
--#include overtaken.lua
local writer = s[3]
local writing_e = writer and tonumber(string.match(writer, '^%d+')) or 0
local writing = writing_e > now
if writing and s[2] ~= token then
  return {0, writing_e - now, granted_to(writer) or '', micros}
end
--#include evenfull.lua
--#include state.lua
--#include readers.lua
--#include livereaders.lua
--#include enlist.lua
--#include tidied.lua
--#include crowded.lua
local lock = load_state({key = key, now = now}, s[4], writer)

-- The token holds the lock already.
local field, mine = writing and 'w' or 'r:' .. token, writing and writer or s[5]
if mine and tonumber(string.match(mine, '^%d+')) <= now then
  redis.call('HDEL', key, field) -- it has been over
  without(lock, 0)
  mine = nil
end
local e, n, f, since, kept, ids, noted, sent_before, upgrade
if mine then
  even_full(key)
  e, n, f, since, kept, ids, noted, sent_before, upgrade =
    again(mine, field ~= 'w', mode, id, reentrant, relying, note, from + lease)
end
if mine and not upgrade then
  outlast(lock, e)
  if field == 'w' and mode == 'r' and not sent_before and not overtaken(id, ids) then
    -- It only reads from now on.
    redis.call('HDEL', key, 'o', 'w')
    field = 'r:' .. token
    redis.call('HSET', key, enlist(lock, field))
    lock.readers, lock.readers_end = 1, e
    redis.call('PUBLISH', key, id)
  end
  if field ~= 'w' and lock.readers_end > 0 then lock.readers_end = math.max(lock.readers_end, e) end
  save(lock, field, pack_hold(e, n, f, since, kept, ids, noted))
  return {tonumber(f), e - from, n, 0, micros}
end

-- Others hold it, or nobody does.
local latest = read_until(lock, upgrade and token)
local waits = mode == 'w' and latest
if waits or not wanted and not upgrade then
  save(lock)
  return {upgrade and -1 or 0, math.max(waits and latest - now or 1, 1), waits and 'r' or '', micros}
end
if mode == 'r' and crowded(lock, most) then
  save(lock)
  --#include full.lua
  return full(lock, lock.readers, 'share', 'lock-max-readers')
end
f = next_fence(fence_key, clock, wanted)
if upgrade then
  outlast(lock, e)
  redis.call('HDEL', key, field)
  lock.readers, lock.readers_end = 0, 0
  save(lock, 'o', token, 'w', pack_hold(e, n, f, now, kept, ids, noted))
  return {tonumber(f), e - from, n, 1, micros}
end
e = from + lease
outlast(lock, e)
local hold = pack_hold(e, 1, f, now, keeper == '' and '-' or keeper, '+' .. id, note)
if mode == 'w' then
  save(lock, 'o', token, 'w', hold)
else
  if writer then redis.call('HDEL', key, 'o', 'w') end
  local listed = {enlist(lock, 'r:' .. token)}
  lock.readers = lock.readers + 1
  lock.readers_end = math.max(lock.readers_end, e)
  save(lock, 'r:' .. token, hold, unpack(listed))
end
return {tonumber(f), lease, 1, 1, micros}
