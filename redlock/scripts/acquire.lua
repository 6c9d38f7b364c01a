-- acquire takes a lock, changes how it is held, joins its queue, or says that others hold it.
--
-- KEYS  1  the lock
--       2  the fence of its slot
-- ARGV  1  the value of the key if the lock is granted as a plain lock (see below). It has the token, the id
--          of the request, and a fence of 16 digits: what the clock of the proxy shows, in µs
--       2  lease in ms, plus one, because Redis counts the millisecond that runs as a whole one
--          A request that is content with a plain lock ends here. Otherwise ("" for what is not given):
--       3  mode: w; r; p for a permit; or behind, which is w while other requests of the same proxy wait
--       4  reentrant: 1 or 0
--       5  proxy, if the request may wait
--       6  how many ms it may wait from now on, and behind a blank the last place that it was told, if any
--       7  most waiters, and behind a blank most readers, or how many permits there are
--       8  PUBLISH or SPUBLISH
--          If one of the following is given:
--       9  keeper; or = and the keeper that the client's connection has for this hold already
--      10  meta; or a tab, for how many ms the hold is to go on at least (ATLEAST, not more than the
--          lease), a blank, and the meta
--      11  replication id of the master that may grant
--      12  1 if what others hold is to end (BREAK). Then the request may not wait.
-- Reply {token, fence, ttl ms, count}: granted
--       {token, fence, ttl ms, count, 1}: granted, and what others held has ended by this
--       fence, or 1 for the one in ARGV 1: granted, with the lease that was asked for and the count 1
--       {place, ms, ids}: it waits, and may try again by itself after so many ms; the requests with these ids
--          should try now (*: all of this proxy). The place is 0 for a reader that is to become the writer
--       nil: others hold the lock, or all permits
--       -1: the request would count the hold up, but its proxy has asked for that hold again since: it needs
--          a new id
--       -2: some of what others held has ended; to be sent again, with a new id, for the rest
--       -3: too many dead waiters keep it from finding out who is first; to be sent again
--       error LOCKTYPE or PERMITS: others use the key as something else, or with another number of permits
-- Effects: one hold or one place in the queue for each id of a request, however often it is sent. A request
--       that may not wait leaves nothing unless it is granted. With BREAK the holds of others go, what rests
--       too, but none that its own proxy has asked for since; proxies that kept them alive are told, and the
--       queue waits on. Nothing ends before it is clear that the request is not refused, nor if its token
--       holds the lock already and need not become the writer.
--
-- A token, in all scripts, is what OwnerOf makes of the client's token: a digest of it. The fields of a lock
-- are listed in docs/house.md (A lock's life): a plain lock is a string, any other one a hash. hold.lua says
-- what a hold is, state.lua what s is, queue.lua and readers.lua how their lists are kept. A semaphore is a
-- hash whose permits are the holds of readers; once nobody holds or waits for it, the key may become a lock,
-- and a lock a semaphore. A hold that was released, but goes on (ATLEAST), is described in rest.lua.
local key, fence_key, plain_value, lease, mode = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3] or 'w'
local wanted_keeper, call = ARGV[9], redis.call

-- Nearly every LOCK ends here. If the fence is more than ten seconds ahead of the last one of the slot, the
-- slot was not used for a while, or its last fences are lost, or the clock of the proxy is wrong. Then the
-- clock of Redis makes the fence.
if mode == 'w' and not wanted_keeper then
  local fence, value, reply = string.sub(plain_value, 13, 28), plain_value, 1
  local last = tonumber(call('GETRANGE', fence_key, '0', '15')) or 0
  if fence - last > 10000000 then
    local time = call('TIME')
    fence = time[1] .. string.sub('00000' .. time[2], -6)
    value = string.sub(value, 1, 12) .. fence .. string.sub(value, 29)
    reply = tonumber(fence)
  end
  -- A server that is full refuses this SET. It goes on below, because the token may have the lock already.
  local made = fence - last > 0 and #fence == 16 and fence <= '9007199254740992'
    and redis.pcall('SET', key, value, 'NX', 'PX', lease)
  if made and made.ok then
    call('SETRANGE', fence_key, '0', fence)
    return reply
  end
end

local id, token = string.match(plain_value, '^%+(%S+) (.*)$', 30)
local reentrant, proxy, wait, limits, publish = ARGV[4] == '1', ARGV[5], ARGV[6], ARGV[7] or '', ARGV[8]
local meta, master, breaks = ARGV[10] or '', ARGV[11] or '', ARGV[12] == '1'
local most_waiters, most_readers = string.match(limits, '^(%d*) ?(%d*)$')
most_waiters, most_readers = tonumber(most_waiters) or 0, tonumber(most_readers) or math.huge
local keeper = wanted_keeper or ''
lease, mode = lease - 1, mode == 'behind' and 'w' or mode
if string.sub(keeper, 1, 1) == '=' then keeper = '' end
if proxy == '' then proxy = nil end
local form = mode == 'p' and 'permits ' .. most_readers or '1'
--#include plain.lua
local plain_fence, plain_ids, plain_owner = read_plain(call('MGET', key)[1])
--#include otherform.lua
if plain_fence and mode == 'p' then return other_form(key, '1', mode) end
if plain_fence and plain_owner ~= token and not proxy and not breaks then return false end
--#include now.lua
--#include fence.lua
--#include master.lua
-- This writes nothing. But a server that is full refuses it: there nobody joins a queue, or ends a hold.
if plain_fence and plain_owner ~= token then call('SETRANGE', fence_key, '0', '') end
--#include unfold.lua
local clock = unfold(key, plain_fence, plain_ids, plain_owner)
local now, from = in_ms(clock)
--#include noteof.lua
local note = note_of(meta, from)
local version, owner, writer, packed, shared, place, proxy_until = unpack(redis.pcall('HMGET', key,
  'v', 'o', 'w', 's', 'r:' .. token, 'i:' .. id, 'p:' .. (proxy or '')))
--#include islock.lua
if version ~= form and not is_lock(version) then
  --#include foreign.lua
  local refused = foreign(key) or master ~= '' and other_master(master)
  if refused then return refused end
  local fence = next_fence(fence_key, clock)
  --#include create.lua
  if create(key, form, mode, token, fence, lease, now, from, keeper, id, note) then return tonumber(fence) end
  return {token, tonumber(fence), lease, 1}
end
local writer_expiry = writer and tonumber(string.match(writer, '^%d+')) or 0
local writing = writer_expiry > now
local others = writing and owner ~= token and version == form and not breaks
if others and not proxy then return false end
--#include grantedto.lua
--#include allowwrites.lua
--#include state.lua
--#include saved.lua
--#include tidied.lua
--#include queue.lua
--#include full.lua
local lock = load_state({key = key, version = version, now = now, me = proxy, publish = publish,
  place = tonumber(place)}, packed, writer)
local pause, try, upgrade = writer_expiry - now, {}, false

if lock.place then allow_writes(key) end
if others then
  try[1] = granted_to(writer)
else
  -- What is needed only here is included here: to make a function takes Redis time.
  --#include hold.lua
  --#include keeper.lua
  --#include keeperafter.lua
  --#include meant.lua
  --#include overtaken.lua
  --#include offer.lua
  --#include turn.lua
  --#include readers.lua
  --#include livereaders.lua
  --#include permits.lua
  --#include enlist.lua
  --#include crowded.lua
  --#include welcome.lua
  --#include request.lua
  local r = {token = token, id = id, mode = mode, reentrant = reentrant, lease = lease, from = from,
    note = note, wanted_keeper = wanted_keeper or '', keeper = keeper}

  if version ~= form then -- is it in use?
    local used = writing or read_until(lock)
    if not used then
      end_offer(lock)
      local place, first_mode = first(lock)
      if first_mode == '?' then return saved(lock, -3) end
      used = place
    end
    if used then return saved(lock, other_form(key, version, mode)) end
    call('HSET', key, 'v', form)
    call('HDEL', key, 'o', 'w')
    owner, writer, shared, lock.permits = nil, nil, nil, mode == 'p' and most_readers or nil
  end

  -- Does the token hold the lock already?
  local h = ask_for_own(lock, r, owner, writer, shared)
  upgrade = h.upgrade
  if h.field and reentrant and not h.sent_before and not proxy and not meant(id, h.fence, h.ids) then
    return -1
  end
  if h.field and not upgrade then
    if lock.place then
      drop(lock, lock.place, id)
      if lock.permits then welcome(lock) end
    end
    keep_own(lock, r, h, welcome)
    -- A request from before an upgrade gets the fence and the count of then.
    local asked_at = string.find(h.ids, string.match(id, ',%w+') or id, 1, true)
    local old_fence, old_count = string.match(h.ids, '[%^%*%?&][%w,]+:(%d+):(%d+)', asked_at)
    if h.sent_before and old_fence then
      return {token, tonumber(old_fence), h.expiry - from, tonumber(old_count)}
    end
    return {token, tonumber(h.fence), h.expiry - from, h.count}
  end

  local broke
  if breaks then
    local refused = master ~= '' and other_master(master)
    if refused then return saved(lock, refused) end
    call('HSET', key, 'v', form) -- changes nothing, and is refused if the server is full
    --#include lastfence.lua
    --#include endholds.lua
    local ended, more, spared = end_holds(lock, writer, fence_key, fence_key, function(fence, hold, at)
      return meant(id, fence, hold, at)
    end, upgrade and h.field)
    if more or spared then return saved(lock, ended and -2 or -1) end
    broke = ended and 1 or nil
    -- What has ended may have lasted for long. For 20 seconds the lock may have answers to releases.
    if lock.waiters == 0 then lock.expires = math.min(lock.expires, now + 20000) end
  end

  -- Whose turn is it? The request waits for pause ms if it is not its own.
  local readers_end, free, permit_ends
  if lock.permits then
    free, permit_ends = free_permits(lock)
    readers_end = free == 0 and permit_ends
  else
    readers_end = read_until(lock, upgrade and token)
  end
  local first_place, first_mode, first_id
  if breaks then
    lock.offered, lock.offer_end = 0, 0 -- the queue waits on
  else
    end_offer(lock)
    first_place, first_mode, first_id = first(lock)
  end
  local unknown = first_mode == '?'
  local turn = not first_place or first_place == lock.place and not unknown
  if upgrade then -- before everybody else, once the other readers are gone
    if first_mode == 'u' and first_place ~= lock.place then
      return saved(lock, {err = 'DEADLOCK another reader waits already to become the writer, ' ..
        'and each would wait for the other: release the shared hold, then lock again'})
    end
    turn = not readers_end
  elseif mode == 'w' then
    turn = turn and not readers_end
  elseif free then -- as many go in together as there are permits
    local offered = lock.place and lock.place < lock.offered
    turn = free > 0 and (turn or offered or not lock.place and lock.waiters < free)
  else -- readers go in together
    turn = turn or (lock.place and lock.place < lock.offered) or
      (proxy and not lock.place and first_mode == 'r' and lock.offered == lock.tail)
  end
  if turn and mode == 'r' and crowded(lock, most_readers) then
    if lock.place then drop(lock, lock.place, id) end
    return saved(lock, full(lock, lock.readers, 'share', 'lock-max-readers'))
  end
  if turn then
    local refused = master ~= '' and other_master(master)
    if refused then return saved(lock, refused) end
    local fence = next_fence(fence_key, clock)
    if lock.place then drop(lock, lock.place, id) end
    local left, count = grant(lock, r, h, writer, fence, welcome)
    return {token, tonumber(fence), left, count, broke}
  end
  if unknown and not upgrade then
    pause = 1
  elseif readers_end and (upgrade or (first_mode or mode) ~= 'r') then
    pause = readers_end - now
    -- A reader that is to become the writer need not wait for itself, so its turn may have come.
    if first_mode == 'u' and not upgrade then try[1] = first_id end
  elseif first_place and proxy then
    if first_place >= lock.offered then offer(lock, first_place) end
    pause, try[1] = math.min(lock.offer_end, permit_ends or lock.offer_end) - now, first_id
  end

  if not proxy then return saved(lock, unknown and not upgrade and -3) end
  if upgrade then
    -- A place in the queue where it would wait for the shared hold of its own token is given up.
    if lock.place and string.sub(call('HGET', key, 'q:' .. lock.place) or '', 1, 1) ~= 'u' then
      drop(lock, lock.place, id)
      lock.place = nil
    end
    if not lock.place then first(lock) end
  end
end

-- The request waits.
local own_place, joins = lock.place, {}
if not own_place then
  local most_places = 10 * math.min(most_waiters, math.max(lock.waiters, 100))
  local holes = lock.waiters <= 200 and lock.tail - lock.head >= most_places
  if holes or lock.waiters >= most_waiters then
    --#include tidy.lua
    tidy(lock, holes)
  end
  if lock.waiters >= most_waiters then
    return saved(lock, full(lock, lock.waiters, 'wait for', 'lock-max-queue'))
  end
  -- A reader that is to become the writer stands before all. Who was dropped because its proxy counted as
  -- dead, or with the lock, gets its place again, unless another has it or the queue would get too long.
  local ms, had = string.match(wait, '^(%d+) ?(%d*)$')
  own_place = upgrade and lock.head - 1 or tonumber(had) or lock.tail
  if lock.waiters == 0 then lock.head, lock.tail = own_place, own_place end
  local places = math.max(lock.tail, own_place + 1) - math.min(lock.head, own_place)
  if not upgrade and had ~= '' and (places > most_places or call('HGET', key, 'q:' .. had)) then
    own_place = lock.tail
  end
  -- Those who were offered the lock wait for who stands before them.
  if own_place < lock.offered then lock.offered, lock.offer_end = 0, 0 end
  lock.head, lock.tail = math.min(lock.head, own_place), math.max(lock.tail, own_place + 1)
  lock.waiters = lock.waiters + 1
  local deadline = now + ms
  outlast(lock, deadline)
  local entry = (upgrade and 'u' or mode) .. ' ' .. id .. ' ' .. proxy .. string.format(' %d %d ', deadline,
    lease) .. (keeper == '' and '-' or keeper) .. ' ' .. #token .. ' ' .. token .. meta -- as queue.lua says
  local at = string.format('%d', own_place) -- Redis is slow to turn a number of Lua into a text
  joins = {'q:' .. at, entry, 'i:' .. id, at}
end
save(lock, 'p:' .. proxy, string.format('%d', now + 15000), unpack(joins))
-- If this proxy counted as dead, its other waiters may have lost their places.
if lock.asleep or (tonumber(proxy_until) or 0) <= now then try[#try + 1] = '*' end
return {upgrade and 0 or own_place, math.max(pause, 1), table.concat(try, ' ')}
