-- acquire takes a lock, changes how it is held, joins its queue, or says that it is held.
--
-- KEYS  1 the lock   2 the fence of its slot; or none, if only one of the two is at this node: then what is granted
--       has a fence that begins with 0 and stands for the one that number.lua puts there, and nobody is told before
-- ARGV  1 the lock as it is to be if it is plain, see below: with the token, the id of the request, and a fence of
--       16 digits, which is what the clock of the proxy shows, in µs   2 lease, ms, and one more, for the
--       millisecond that runs, which Redis counts as a whole one
--       and, of one that may only be granted a plain lock, no more; else, or "":
--       3 mode: w, r, or behind: w, while others of its proxy wait   4 reentrant: 1 or 0   5 proxy   6 ms that it waits from now on   7 longest queue, and behind
--       a blank most readers   8 PUBLISH or SPUBLISH
--       and only if one of them is meant, else they may be left out, or "":
--       9 keeper, or = and the one that whoever asks is already   10 meta   11 replication id of the master
--       that may grant
-- Reply granted {token, fence, ttl ms, count}, or, if the lease is the one that was asked for and the count 1, the
--       fence alone, or 1: the fence that was asked for;
--       waits {place, ms until it may try again by itself, ids of the requests that should try now; "*": all of
--       this proxy};
--       -1 if it would count a grant that its proxy has asked for later, for which it needs a new id;
--       held nil;
--       the error TIDY: it is to ask again when tidy.lua has looked for those who have gone; or FENCE and one
--       that begins with 0: number.lua is to run first
-- Effects one hold, or one place in the queue, for each request id, however often it is sent;
--       one that may not wait leaves nothing unless it is granted
--
-- A token, here and in all scripts, is what OwnerOf makes of the client's.
--
-- A lock that one writer holds once, and nobody waits for, keeps or describes, is a string:
-- "lockproxy 1 fence requests token". It is plain. Any other lock is a hash.
--
-- A hold, of the writer (the field w, its token is in o) or of a reader (the field r:<token>), is
-- "expiry count fence since keeper requests meta". Requests are the last eight that made it what it is:
--   +id, -id   it was counted, or counted down
--   =id        the token came again; =0000000000000000 stands for all renewals, =1111111111111111 for the
--              last CHECK
--   ^id, *id   it made a writer of the reader; it did so and was counted
--   !id ?id &id   +id, ^id and *id that were cancelled, when others had been told of them
--   @id        the first, which the lock was granted to, if there is no room for all: in front of the last
-- An id of a LOCK with a name of its client's (ID) is "id,name".
--
-- The field b has the fence and the count from before each of the last upgrades, " id fence count;", newest
-- first, so that a request that came before it and is sent again gets the answer that was true then. The
-- field s is described in state.lua, the queue in queue.lua, the list of readers (m, m:0 ...) in readers.lua.
local key, fence_key, wanted, lease, mode, more = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3] or 'w', ARGV[9]
local call = redis.call

-- Nearly always a LOCK ends here. A fence is not taken if it is more than ten seconds ahead of the last one of the
-- slot: the clock of the proxy may be wrong.
if fence_key and mode == 'w' and not more then
  local f = string.sub(wanted, 13, 28)
  local ahead = f - (tonumber(call('GETRANGE', fence_key, '0', '15')) or 0)
  local made = ahead > 0 and ahead <= 10000000 and redis.pcall('SET', key, wanted, 'NX', 'PX', lease)
  if made and made.ok then -- a server that is full refuses it, and hears below what is held already
    call('SETRANGE', fence_key, '0', f)
    return 1
  end
end

local id, token = string.match(wanted, '^%+(%S+) (.*)$', 30)
local reentrant, proxy, wait, limits, publish = ARGV[4] == '1', ARGV[5], ARGV[6], ARGV[7] or '', ARGV[8]
local keeper, meta, master = more or '', ARGV[10] or '', ARGV[11] or ''
local most_waiters, most_readers = string.match(limits, '^(%d*) ?(%d*)$')
most_waiters, most_readers = tonumber(most_waiters) or 0, tonumber(most_readers) or math.huge
local relying, note = keeper, meta == '' and '' or ' ' .. meta
lease = lease - 1
if string.sub(keeper, 1, 1) == '=' then keeper = '' end
if proxy == '' then proxy = nil end
if mode == 'behind' then mode = 'w' end
--#include plain.lua
local plain, plain_ids, owner = read_plain(call('MGET', key)[1]) -- which knows no hash
if plain and not proxy and owner ~= token then return false end -- that is quickly said
local clock = call('TIME')
--#include now.lua
--#include fence.lua
--#include master.lua
local now, from = in_ms(clock)
if plain then
  if owner ~= token then call('SETRANGE', fence_key or key, '0', '') end -- nobody joins the queue of a server that is full
  --#include unfold.lua
  clock = unfold(key, plain, plain_ids, owner)
  now, from = in_ms(clock)
end
local s = redis.pcall('HMGET', key, 'v', 'o', 'w', 's', 'r:' .. token, 'i:' .. id, 'p:' .. (proxy or ''))
if s[1] ~= '1' then
  local kind = call('TYPE', key)
  kind = kind.ok or kind
  if kind ~= 'none' then
    --#include foreign.lua
    return foreign(key, kind)
  end
  local other = master ~= '' and other_master(master)
  if other then return other end
  local f = next_fence(fence_key, clock)
  --#include create.lua
  if create(key, mode, token, f, lease, now, from, keeper, id, note) then return tonumber(f) end
  return {token, tonumber(f), lease, 1}
end
local writer = s[3]
local writing_e = writer and tonumber(string.match(writer, '^%d+')) or 0
local writing = writing_e > now
if writing and s[2] ~= token and not proxy then return false end
--#include hold.lua
--#include grantedto.lua
--#include again.lua
--#include meant.lua
--#include overtaken.lua
--#include evenfull.lua
--#include state.lua
--#include queue.lua
--#include turn.lua
--#include readers.lua
--#include livereaders.lua
--#include enlist.lua
--#include tidied.lua
--#include full.lua
--#include welcome.lua
local place = tonumber(s[6])
local lock = load_state({key = key, now = now, me = proxy, publish = publish, place = place}, s[4], writer)

local function untidy()
  save(lock)
  return {err = 'TIDY those who have gone are to be looked for first'}
end

-- The token holds the lock already.
local field, mine = 'r:' .. token, not writing and s[5]
if writing and s[2] == token then
  field, mine = 'w', writer
end
if mine and tonumber(string.match(mine, '^%d+')) <= now then
  call('HDEL', key, field) -- it has been over
  without(lock, 0)
  mine = nil
end
if mine or lock.place then even_full(key) end
local e, n, f, since, kept, ids, noted, sent_before, upgrade
if mine then
  e, n, f, since, kept, ids, noted, sent_before, upgrade =
    again(mine, field ~= 'w', mode, id, reentrant, relying, note, from + lease)
  if reentrant and not sent_before and not proxy and not meant(id, f, ids) then return -1 end
  if upgrade and string.byte(f) == 48 then return {err = 'FENCE ' .. f} end
end
if mine and not upgrade then
  if lock.place then drop(lock, lock.place, id) end
  outlast(lock, e)
  local reads_only = field == 'w' and mode == 'r' and not sent_before and not overtaken(id, ids)
  if reads_only then
    call('HDEL', key, 'o', 'w')
    field = 'r:' .. token
    call('HSET', key, enlist(lock, field))
    lock.readers, lock.readers_end = 1, e
    welcome_readers(lock)
  end
  if field ~= 'w' and lock.readers_end > 0 then lock.readers_end = math.max(lock.readers_end, e) end
  save(lock, field, pack_hold(e, n, f, since, kept, ids, noted))
  local own = string.match(id, ',%w+') or id
  local upgraded = sent_before and string.match(ids, '[%^%*%?&]([%w,]+)', string.find(ids, own, 1, true))
  if upgraded then
    local was, count = string.match(call('HGET', key, 'b') or '', ' ' .. upgraded .. ' (%d+) (%d+);')
    if was then return {token, tonumber(was), e - from, tonumber(count)} end
  end
  return {token, tonumber(f), e - from, n}
end

-- Whose turn is it?
local pause, try = writing_e - now, {}
if writing then
  try[1] = granted_to(writer)
else
  local latest = read_until(lock, upgrade and token)
  lapse(lock)
  local seq, first_mode, first_id = first(lock)
  local unknown = first_mode == '?'
  local turn = not seq or seq == lock.place and not unknown
  if upgrade then -- before everybody else, when the other readers are gone
    if first_mode == 'u' and seq ~= lock.place then
      save(lock)
      return {err = 'DEADLOCK another reader waits already to become the writer, ' ..
        'and each would wait for the other: release the shared hold, then lock again'}
    end
    turn = not latest
  elseif mode == 'w' then
    turn = turn and not latest
  else -- readers go in together
    turn = turn or (lock.place and lock.place < lock.offered) or
      (proxy and not lock.place and first_mode == 'r' and lock.offered == lock.tail)
  end
  if turn and mode == 'r' and lock.readers >= most_readers then
    if not tidied(lock, 'dr') then return untidy() end
    if lock.place then drop(lock, lock.place, id) end
    save(lock)
    return full(lock, lock.readers, 'share', 'lock-max-readers')
  end
  if turn then
    local other = master ~= '' and other_master(master)
    if other then
      save(lock)
      return other
    end
    local read = upgrade and ' ' .. id .. ' ' .. f .. ' ' .. n - (reentrant and 1 or 0) .. ';'
    f = next_fence(fence_key, clock)
    if lock.place then drop(lock, lock.place, id) end
    if upgrade then
      outlast(lock, e)
      call('HDEL', key, field)
      lock.readers, lock.readers_end = 0, 0
      lock.offered, lock.offer_end = 0, 0 -- whoever was offered the lock waits on
      read = read .. string.sub(call('HGET', key, 'b') or '', 1, 120)
      save(lock, 'o', token, 'w', pack_hold(e, n, f, now, kept, ids, noted), 'b', read)
      return {token, tonumber(f), e - from, n}
    end
    local hold = pack_hold(from + lease, 1, f, now, keeper == '' and '-' or keeper, '+' .. id, note)
    outlast(lock, from + lease)
    if mode == 'w' then
      save(lock, 'o', token, 'w', hold)
    else
      if writer then call('HDEL', key, 'o', 'w') end
      local listed = {enlist(lock, 'r:' .. token)}
      lock.readers = lock.readers + 1
      lock.readers_end = math.max(lock.readers_end, from + lease)
      welcome_readers(lock)
      save(lock, 'r:' .. token, hold, unpack(listed))
    end
    return {token, tonumber(f), lease, 1}
  end
  if unknown and not upgrade then
    if not proxy then return untidy() end
    pause = 1
  elseif latest and (upgrade or (first_mode or mode) ~= 'r') then
    pause = latest - now
    if first_mode == 'u' and not upgrade then try[1] = first_id end -- it waits for fewer
  elseif seq and proxy then
    if seq >= lock.offered then offer(lock, seq) end
    pause, try[1] = lock.offer_end - now, first_id
  end
end

if not proxy then
  save(lock)
  return false
end

-- It waits.
local joins = {}
place = lock.place
if upgrade and place and string.sub(call('HGET', key, 'q:' .. place) or '', 1, 1) ~= 'u' then
  drop(lock, place, id) -- it waited behind its own shared hold
  place = nil
end
if not place then
  if lock.waiters >= most_waiters then
    if not tidied(lock, 'd') then return untidy() end
    save(lock)
    return full(lock, lock.waiters, 'wait for', 'lock-max-queue')
  end
  local most_places = 10 * math.min(most_waiters, math.max(lock.waiters, 100))
  if lock.tail - lock.head >= most_places and lock.waiters <= 200 then return untidy() end
  if upgrade then -- whoever was offered the lock comes after it
    first(lock)
    lock.head = lock.head - 1
    place, lock.offered, lock.offer_end = lock.head, 0, 0
  else
    place, lock.tail = lock.tail, lock.tail + 1
  end
  lock.waiters = lock.waiters + 1
  local deadline = now + tonumber(wait)
  outlast(lock, deadline)
  local entry = string.format('%s %s %s %d %d %s %d ', upgrade and 'u' or mode, id, proxy, deadline, lease,
    keeper == '' and '-' or keeper, #token) .. token .. meta -- as queue.lua says
  joins = {'q:' .. place, entry, 'i:' .. id, place}
end
save(lock, 'p:' .. proxy, now + 3000, unpack(joins))
if lock.asleep or (tonumber(s[7]) or 0) <= now then
  try[#try + 1] = '*' -- this proxy counted as dead
end
return {place, math.max(pause, 1), table.concat(try, ' ')}
