--#include noteafter.lua
-- request.lua is what a LOCK does to a lock: that its token holds already, or that it is granted. The table r
-- is the request: token, id, mode, reentrant, lease, from (see now.lua), note (see noteof.lua),
-- wanted_keeper as in keeper_after, and keeper, which is that or "". The table lock is that of load_state.

-- ask_for_own(lock, r, owner, writer, shared) applies the request to the hold that its token has, if there is
-- one: owner and writer are the fields o and w of the lock, shared is the hold as a reader. It returns the
-- table h, with field and what parse_hold returns; sent_before, if the request has come before; upgrade, if
-- the reader is to become the writer, and nothing is written yet. Without a hold, h is empty.
local function ask_for_own(lock, r, owner, writer, shared)
  local writes = writer and owner == r.token and tonumber(string.match(writer, '^%d+')) > lock.now
  local field, hold = writes and 'w' or 'r:' .. r.token, writes and writer or shared
  if not hold then return {} end
  local expiry, count, fence, since, kept, ids, note = parse_hold(hold)
  if expiry <= lock.now then -- no longer
    redis.call('HDEL', lock.key, field)
    reader_left(lock, 0)
    return {}
  end
  allow_writes(lock.key)
  local id, name, upgrade = r.id, string.match(r.id, ',%w+'), false
  local sent_before = string.find(ids, id, 1, true)
  if not sent_before and name and string.find(ids, name, 1, true) then
    -- The client has sent it again itself, so the proxy has given it another id.
    sent_before = true
    ids, kept = ids .. '=' .. id, keeper_after(kept, r.wanted_keeper)
  elseif not sent_before then
    upgrade = not writes and r.mode == 'w'
    ids = ids .. (upgrade and (r.reentrant and '*' or '^') or r.reentrant and '+' or '=') .. id
    if upgrade then ids = ids .. ':' .. fence .. ':' .. count end
    if r.reentrant then count = count + 1 end
    kept = keeper_after(kept, r.wanted_keeper)
    note = note_after(note, r.note)
  end
  return {field = field, expiry = math.max(expiry, r.from + r.lease), count = count, fence = fence,
    since = since, kept = kept, ids = ids, note = note, sent_before = sent_before, upgrade = upgrade}
end

-- keep_own(lock, r, h, share) writes the hold that the token has and keeps. If the writer becomes a reader,
-- share(lock) lets others in.
local function keep_own(lock, r, h, share)
  outlast(lock, h.expiry)
  if h.field == 'w' and r.mode == 'r' and not h.sent_before and not overtaken(r.id, h.ids) then
    redis.call('HDEL', lock.key, 'o', 'w')
    h.field = 'r:' .. r.token
    redis.call('HSET', lock.key, enlist(lock, h.field, h.expiry))
    share(lock)
  end
  if h.field ~= 'w' and not lock.permits then lock.readers_end = math.max(lock.readers_end, h.expiry) end
  save(lock, h.field, pack_hold(h.expiry, h.count, h.fence, h.since, h.kept, h.ids, h.note))
end

-- grant(lock, r, h, writer, fence, share) writes a new hold, or the one of a reader that becomes the writer.
-- It returns the ms that it lasts, and its count. writer says that the field w is there. share is as above.
local function grant(lock, r, h, writer, fence, share)
  if h.upgrade then
    outlast(lock, h.expiry)
    redis.call('HDEL', lock.key, h.field)
    lock.readers, lock.readers_end = 0, 0
    lock.offered, lock.offer_end = 0, 0 -- those who were offered the lock wait on
    save(lock, 'o', r.token, 'w', pack_hold(h.expiry, h.count, fence, lock.now, h.kept, h.ids, h.note))
    return h.expiry - r.from, h.count
  end
  local expiry, keeper = r.from + r.lease, r.keeper == '' and '-' or r.keeper
  outlast(lock, expiry)
  local hold = pack_hold(expiry, 1, fence, lock.now, keeper, '+' .. r.id, r.note)
  if r.mode == 'w' then
    save(lock, 'o', r.token, 'w', hold)
  else
    if writer then redis.call('HDEL', lock.key, 'o', 'w') end
    local listed = {enlist(lock, 'r:' .. r.token, expiry)}
    share(lock)
    save(lock, 'r:' .. r.token, hold, unpack(listed))
  end
  return r.lease, 1
end
