-- claim takes a lock on one of several independent masters, changes how it is held, or says that others hold
-- it. It does what acquire does on one Redis, but has no queue, and a majority of masters has to agree on the
-- fence: see redlock/quorum/attempt.go and redlock/quorum/fence.go.
--
-- KEYS  1  the lock
--       2  the fence of its slot
-- ARGV  1  token
--       2  lease, ms
--       3  mode: w or r
--       4  request id
--       5  reentrant: 1 or 0
--       6  fence that the grant should have; or "" if no new hold may be granted
--       7  most readers
--       8  keeper; or = and the keeper that the client's connection has for this hold already; or ""
--       9  meta as in acquire.lua, or ""
--      10  if what others hold is to end (BREAK): 1
-- Reply granted: {fence, ttl ms, count, 1 if the hold is new or has a new fence, else 0, clock in µs}; or
--          the clock alone for {6, 2, 1, 1, clock}. It is 2 in place of 1 if others' holds ended by this.
--       held by others: {-1 for a reader that is to become the writer, else 0; ms that it lasts; who holds
--          it: the id of the request that made the holder the writer, r for readers, or ""; clock in µs}
--       {-2, fence, 1 if holds ended by this, else 0; clock in µs}: with BREAK, a hold that does not end has
--          that fence; or the fence that was asked for is a second ahead of it. The next attempt is to ask
--          for one close to it, and higher.
--       {-3, fence, 1, clock in µs}: with BREAK, some holds have ended; to be sent again for the others
-- Effects: one hold for each request id, however often it is sent. BREAK is as in acquire.lua. But only holds
--       end whose fences are lower than the one that is asked for, and so than the one that is granted: a
--       request that was overtaken on its way to this master leaves alone what was granted since.
local key, fence_key, call = KEYS[1], KEYS[2], redis.call
local token, lease, mode, id, reentrant = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5] == '1'
local candidate, most_readers, wanted_keeper, meta = ARGV[6], tonumber(ARGV[7]), ARGV[8], ARGV[9]
local wanted_fence, clock = tonumber(candidate), call('TIME')
local micros = clock[1] * 1000000 + clock[2]

-- Nearly every LOCK ends here: the lock is free and becomes a plain one, and the fence is higher than the
-- last one of the slot and at most a second ahead of the clock. Fences are compared as texts of 16 digits.
local plain = mode == 'w' and wanted_keeper == '' and meta == '' and #candidate == 16
if plain and wanted_fence > micros and wanted_fence <= micros + 1000000
  and wanted_fence <= 2^53 and call('GETRANGE', fence_key, '0', '15') < candidate then
  -- A server that is full refuses this SET. It goes on below, because the token may have the lock already.
  local value = 'lockproxy 1 ' .. candidate .. ' +' .. id .. ' ' .. token
  local made = redis.pcall('SET', key, value, 'NX', 'PX', lease + 1)
  if made and made.ok then
    call('SETRANGE', fence_key, '0', candidate)
    return micros
  end
end

local breaks = ARGV[10] == '1'
--#include lastfence.lua
if breaks then
  local last = last_fence(fence_key)
  local most = math.max(last, micros) + 1000000
  if wanted_fence > most or #candidate ~= 16 then return {-2, most - 1000000, 0, micros} end
  -- The hold is to get that fence at least, also if the clock has stepped back since the last one.
  if wanted_fence > micros + 1000000 and last < wanted_fence - 1 then
    call('SETRANGE', fence_key, '0', string.format('%.0f', wanted_fence - 1))
  end
end

local keeper = string.sub(wanted_keeper, 1, 1) == '=' and '' or wanted_keeper
--#include now.lua
--#include fence.lua
local now, from = in_ms(clock)
--#include noteof.lua
local note = note_of(meta, from)
--#include plain.lua
local plain_fence, plain_ids, plain_owner = read_plain(redis.call('MGET', key)[1])
if plain_fence and plain_owner ~= token and not breaks then
  return {0, math.max(redis.call('PTTL', key), 1), string.match(plain_ids, '%+([%w,]+)') or '', micros}
end
if plain_fence then
  -- This writes nothing. But a server that is full refuses it: there no hold ends.
  if plain_owner ~= token then call('SETRANGE', fence_key, '0', '') end
  --#include unfold.lua
  clock = unfold(key, plain_fence, plain_ids, plain_owner)
  now, from = in_ms(clock)
end
local v, owner, writer, packed, shared = unpack(redis.pcall('HMGET', key, 'v', 'o', 'w', 's', 'r:' .. token))
if v ~= '1' then
  --#include foreign.lua
  local refused = foreign(key)
  if refused then return refused end
  if not wanted_fence then return {0, 1, '', micros} end
  local fence = next_fence(fence_key, clock, wanted_fence)
  --#include create.lua
  create(key, '1', mode, token, fence, lease, now, from, keeper, id, note)
  return {tonumber(fence), lease, 1, 1, micros}
end
--#include hold.lua
--#include keeper.lua
--#include keeperafter.lua
--#include grantedto.lua
--#include overtaken.lua
local writer_expiry = writer and tonumber(string.match(writer, '^%d+')) or 0
local writing = writer_expiry > now
if writing and owner ~= token and not breaks then
  return {0, writer_expiry - now, granted_to(writer) or '', micros}
end
--#include allowwrites.lua
--#include state.lua
--#include saved.lua
--#include readers.lua
--#include livereaders.lua
--#include enlist.lua
--#include request.lua
--#include tidied.lua
--#include crowded.lua
local lock = load_state({key = key, now = now}, packed, writer)

local r = {token = token, id = id, mode = mode, reentrant = reentrant, lease = lease, from = from,
  note = note, wanted_keeper = wanted_keeper, keeper = keeper}
local function tell() redis.call('PUBLISH', key, id) end

-- Does the token hold the lock already?
local h = ask_for_own(lock, r, owner, writer, shared)
local upgrade = h.upgrade
if h.field and not upgrade then
  keep_own(lock, r, h, tell)
  return {tonumber(h.fence), h.expiry - from, h.count, 0, micros}
end

local broke
if breaks then
  call('HSET', key, 'v', v) -- changes nothing, and is refused if the server is full
  --#include endholds.lua
  local newest, more, spared = 0
  broke, more, spared = end_holds(lock, writer, fence_key, fence_key, function(of_hold)
    newest = math.max(newest, tonumber(of_hold))
    return tonumber(of_hold) < wanted_fence
  end, upgrade and h.field)
  if more or spared then
    return saved(lock, {more and -3 or -2, newest, broke and 1 or 0, micros})
  end
  -- What has ended may have lasted for long. For 20 seconds the lock may have answers to releases.
  if lock.waiters == 0 then lock.expires = math.min(lock.expires, now + 20000) end
end

-- Others hold the lock, or nobody does.
local readers_end = read_until(lock, upgrade and token)
local waits = mode == 'w' and readers_end
if waits or not wanted_fence and not upgrade then
  local left = math.max(waits and readers_end - now or 1, 1)
  return saved(lock, {upgrade and -1 or 0, left, waits and 'r' or '', micros})
end
if mode == 'r' and crowded(lock, most_readers) then
  --#include full.lua
  return saved(lock, full(lock, lock.readers, 'share', 'lock-max-readers'))
end
local fence = next_fence(fence_key, clock, wanted_fence)
local left, count = grant(lock, r, h, writer, fence, function() end)
return {tonumber(fence), left, count, broke and 2 or 1, micros}
