-- state.lua is what a lock has beside its writer: readers and a queue. Needs key, now, clock,
-- me (this proxy), publish, packed (the field s), writer (the field w) and place (where the
-- request stands in the queue, or nil).
--
-- c readers, the last of whose leases ends at ce (0: not known); the queue is q:h up to q:t-1,
-- with holes, k waiters in all; those before z may take the lock until ze; x is when the
-- key expires. It begins at 1, so that a reader who becomes the writer can stand before all.
local c, h, t, k, z, ze, x, ce = 0, 1, 1, 0, 0, 0, 0, 0
if packed then
  c, h, t, k, z, ze, x, ce = string.match(packed, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  c, h, t, k, z, ze, x, ce = tonumber(c), tonumber(h), tonumber(t), tonumber(k), tonumber(z), tonumber(ze), tonumber(x), tonumber(ce)
elseif writer then
  x = tonumber(string.match(writer, '^%d+'))
end
local expires = x
local asleep = false -- waiters of this proxy have lost their places

-- save writes what changed, and the fields that it is given. When the key expires is set last:
-- a time that has come meanwhile deletes it, and what was written after that would stay for ever.
local function save(...)
  local now_packed = table.concat({c, h, t, k, z, ze, x, ce}, ' ')
  if now_packed ~= packed then
    packed = now_packed
    redis.call('HSET', key, 's', packed, ...)
  elseif select('#', ...) > 0 then
    redis.call('HSET', key, ...)
  end
  if x ~= expires then
    expires = x
    redis.call('PEXPIREAT', key, x)
  end
end

-- outlast keeps the key until at, from the next save on. With a queue it is some time longer,
-- so that not every waiter moves it.
local function outlast(at)
  if at > x then x = k > 0 and at + 1000 or at end
end

-- drop takes the waiter at seq out of the queue.
local function drop(seq, id)
  if redis.call('HDEL', key, 'q:' .. seq, 'i:' .. id) > 0 then k = k - 1 end
end

-- An entry of the queue is "mode id proxy deadline lease keeper size-of-token token" and, right
-- behind the token, the meta. The mode is w, r, or u for a reader who becomes the writer.
local function pack_entry(mode, id, proxy, deadline, lease, keeper, token, meta)
  return table.concat({mode, id, proxy, deadline, lease, keeper == '' and '-' or keeper, #token, token}, ' ') .. meta
end

local function parse(q)
  local mode, id, proxy, deadline, lease, keeper, size, rest = string.match(q, '^(%a) (%S+) (%S+) (%d+) (%d+) (%S+) (%d+) (.*)$')
  size = tonumber(size)
  return mode, id, proxy, tonumber(deadline), tonumber(lease), string.sub(rest, 1, size), keeper, string.sub(rest, size + 1)
end

local function entry_mode(seq)
  return string.sub(redis.call('HGET', key, 'q:' .. seq) or '', 1, 1)
end

-- reads says that the token has a shared hold.
local function reads(token)
  local hold = redis.call('HGET', key, 'r:' .. token)
  return hold and tonumber(string.match(hold, '^%d+')) > now
end

local alive = {[me or ''] = true}
local function lives(proxy, deadline)
  if alive[proxy] == nil then
    alive[proxy] = (tonumber(redis.call('HGET', key, 'p:' .. proxy)) or 0) > now
  end
  return alive[proxy] and deadline > now
end

-- first is the first waiter that lives; the dead before it are dropped. A reader who waits to be
-- the writer is dead too when its shared hold is over.
--
-- A script looks at few places, so that Redis has time for others: a dead waiter costs as much as six places that
-- are empty. If no living one is found among them, the mode is ?: somebody may wait from h on. Until that is known
-- nobody else gets the lock. The next script goes on from there: see ask.
local looks = 1500
local function first()
  while h < t do
    if k == 0 then
      h = t
      return
    end
    if looks <= 0 then return h, '?' end
    looks = looks - 1
    local q = redis.call('HGET', key, 'q:' .. h)
    if q then
      looks = looks - 5
      local mode, id, proxy, deadline, lease, token, keeper, meta = parse(q)
      if lives(proxy, deadline) and (mode ~= 'u' or reads(token)) then
        return h, mode, id, proxy, lease, token, keeper, meta
      end
      drop(h, id)
      if h == place then
        place = nil
      elseif proxy == me then
        asleep = true
      elseif not alive[proxy] then
        redis.call('HDEL', key, 'p:' .. proxy)
      end
    end
    h = h + 1
  end
end

-- ask has one waiter of each proxy ask, so that their scripts find who is first.
local function ask() redis.call(publish, key, '?') end

-- sweep drops the dead wherever they stand: once a second at most, and among a thousand places or until it has found
-- 200, because it looks at each; the next time it goes on where it stopped.
local function sweep()
  local at, seq = string.match(redis.call('HGET', key, 'd') or '', '^(%d+) ?(%d*)$')
  if (tonumber(at or '') or 0) + 1000 > now then return end
  seq = math.max(tonumber(seq or '') or h, h)
  if seq >= t then seq = h end
  local stop, most = math.min(t, seq + 1000), k - 200
  while seq < stop and k > most do
    local q = redis.call('HGET', key, 'q:' .. seq)
    if q then
      local _, id, proxy, deadline = parse(q)
      if not lives(proxy, deadline) then drop(seq, id) end
    end
    seq = seq + 1
  end
  redis.call('HSET', key, 'd', now .. ' ' .. seq)
end

-- lapse drops the waiters that did not take the lock in time, but not the one at
-- place, who asks now. Their proxies count as dead until they are heard again: the
-- waiters of a crashed proxy cost half a second once.
local function lapse()
  looks = looks - math.max(z - h, 0)
  for seq = h, z - 1 do
    local q = seq ~= place and redis.call('HGET', key, 'q:' .. seq)
    if q then
      looks = looks - 5
      local _, id, proxy = parse(q)
      drop(seq, id)
      redis.call('HDEL', key, 'p:' .. proxy)
      if proxy == me then
        asleep = true
      else
        alive[proxy] = false
      end
    end
  end
  z, ze = 0, 0
end

-- offer reserves the free lock for half a second for the waiter at seq, or for it and
-- the readers that stand behind it, and wakes them.
local function offer(seq)
  local woken, i, stop = {}, seq, math.min(t, seq + 1000)
  while i < stop and #woken < 100 do
    local q = redis.call('HGET', key, 'q:' .. i)
    if q then
      local mode, id = parse(q)
      if mode ~= 'r' and #woken > 0 then break end
      woken[#woken + 1] = id
      if mode ~= 'r' then
        i = i + 1
        break
      end
    end
    i = i + 1
  end
  z, ze = i, now + 500
  redis.call(publish, key, table.concat(woken, ' '))
end

-- readers says how many there are and when the last one's lease ends. They are looked at
-- one by one, and those whose lease is over dropped, only when the last one's may be:
-- until then some of those counted may be over. but, if given, is a token that does not
-- count: then they are looked at, as they are if all is.
local swept = false
--#include readers.lua
local function readers(but, all)
  if ce > now and not but and not all then return c, ce end
  swept = true
  local n, latest, own = 0, 0, 0
  local fields, holds = reader_holds(key, c)
  for i, hold in ipairs(holds) do
    local e = tonumber(string.match(hold, '^%d+'))
    if e <= now then
      redis.call('HDEL', key, fields[i])
    elseif but and fields[i] == 'r:' .. but then
      own = e
    else
      n, latest = n + 1, math.max(latest, e)
    end
  end
  c, ce = n + (own > 0 and 1 or 0), math.max(latest, own)
  return n, latest
end

-- enlist returns what is to be written so that the list of readers has one more, with this field. It is called while
-- c does not count that reader. When more than half of the list is of readers that have gone, it is written anew.
local function enlist(field)
  local m, part = tonumber(redis.call('HGET', key, 'm') or 0), ''
  if m >= 2 * c + 16 then
    local fields = c > 0 and reader_holds(key, c) or {}
    for i = 0, math.ceil(m / 16) - 1 do
      local names = table.concat(fields, ' ', 16 * i + 1, math.min(16 * i + 16, #fields))
      if names == '' then redis.call('HDEL', key, 'm:' .. i) else redis.call('HSET', key, 'm:' .. i, names .. ' ') end
    end
    m = #fields
  end
  local at = 'm:' .. math.floor(m / 16)
  if m % 16 > 0 then part = redis.call('HGET', key, at) end
  return 'm', m + 1, at, part .. field .. ' '
end

-- crowded says that there are most readers, and no place for one more: had, if not false, is what one leaves whose
-- lease is over. They are looked at once a second at most, to see who is over.
local function crowded(most, had)
  if not most or c < most or had and c == most and not swept then return false end
  if not swept and (tonumber(redis.call('HGET', key, 'dr')) or 0) + 1000 <= now then
    redis.call('HSET', key, 'dr', now)
    readers(nil, true)
  end
  return c >= most
end

-- welcome_readers calls in those who stand first in the queue, now that others read.
local function welcome_readers()
  if k > 0 then
    if z > 0 and ze <= now then lapse() end
    local seq, mode = first()
    if mode == '?' then
      ask()
    elseif seq and mode == 'r' and seq >= z then
      offer(seq)
    end
  end
end

-- without notes that a reader has gone, whose lease ended at e.
local function without(e)
  c = c - 1
  if c == 0 or tonumber(e) >= ce then ce = 0 end
end
