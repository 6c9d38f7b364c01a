-- head_of(lock) is the first waiter, as parse_entry returns it without the deadline, if it is quickly found:
-- it is alive, and few empty places are before it. If not, the mode is ?, and acquire.lua looks further. It
-- returns nil if nobody waits.
local function head_of(lock)
  if lock.waiters == 0 then return nil end
  local entry
  for _ = 1, math.min(lock.tail - lock.head, 100) do
    entry = redis.call('HGET', lock.key, string.format('q:%d', lock.head))
    if entry then break end
    lock.head = lock.head + 1
  end
  if not entry or lock.head < lock.offered and lock.offer_end <= lock.now then return '?' end
  local mode, id, proxy, deadline, lease, token, keeper, meta = parse_entry(entry)
  if mode == 'u' or not is_alive(lock, proxy, deadline) then return '?' end
  return mode, id, proxy, lease, token, keeper, meta
end

-- pass_on(lock, readers_end, had_writer, may_grant, release_id, answered) decides what becomes of a lock that
-- has no writer any more:
--   the first waiter gets it at once if it waits at this very proxy, which is alive to tell it, and may_grant
--     is true;
--   any other first waiter is offered the lock;
--   if it is not clear who is first, the waiters are told to ask;
--   a lock that nobody holds or waits for is deleted;
--   but if lock.rest is set, it is held by nobody until lock.rest_end, and all of that comes later.
-- readers_end is what read_until returns. had_writer says that the fields of a writer are still there.
-- release_id is nil or that of the release that frees the lock. It is noted in front of earlier ones
-- (answered, the field u), with the waiter that got the lock; or with 0 if that cannot be noted behind the
-- fence because the script has no key for it.
--
-- It returns {1, id, fence, ttl ms} for a grant, otherwise 1.
--
-- Redis may be full, so what deletes comes before what may need memory (see allowwrites.lua).
local function pass_on(lock, readers_end, had_writer, may_grant, release_id, answered)
  local noted = release_id and not lock.fence_key and
    {'u', ' ' .. release_id .. '>0' .. string.sub(answered or '', 1, 7 * 34)} or {}
  if lock.waiters == 0 and not readers_end and not lock.rest then
    if not noted[1] then
      redis.call('DEL', lock.key)
      return 1
    end
    lock.expires = lock.now + 20000
  end
  if lock.rest then -- nobody gets it before that ends, see rest.lua
    if lock.waiters > 0 then
      tell_to_ask(lock)
    else
      lock.expires = math.max(lock.rest_end, noted[1] and lock.now + 20000 or 0)
    end
    save(lock, 'o', '-', 'w', lock.rest, unpack(noted))
    return 1
  end
  local mode, id, proxy, lease, token, keeper, meta = head_of(lock)
  local free = lock.head >= lock.offered -- nobody was offered it
  if free and mode == 'w' and not readers_end and proxy == lock.me and may_grant then
    drop(lock, lock.head, id)
    local fence, expiry = next_fence(lock.fence_key, lock.clock), lock.from + lease
    lock.head = lock.head + 1
    outlast(lock, expiry)
    --#include noteof.lua
    local hold = pack_hold(expiry, 1, fence, lock.now, keeper, '+' .. id, note_of(meta, lock.from))
    if release_id then -- eight of them are kept
      noted = {'u', ' ' .. release_id .. '>' .. id .. string.sub(answered or '', 1, 7 * 34)}
    end
    save(lock, 'o', token, 'w', hold, unpack(noted))
    return {1, id, tonumber(fence), lease}
  end
  if mode == '?' then
    tell_to_ask(lock)
  elseif free and (mode == 'r' or mode == 'w' and not readers_end or
    mode == 'p' and lock.readers < lock.permits) then
    offer(lock, lock.head)
  end
  if had_writer then redis.call('HDEL', lock.key, 'o', 'w') end
  save(lock, unpack(noted))
  return 1
end
