-- load_state(script, packed, writer) is the table lock that the functions of the parts take, with what a lock has
-- beside its holds: packed is the field s, and writer the field w. What the script knows comes along:
--   key, fence_key, clock, now, from   KEYS, of which the second may be missing, the reply of TIME, and what
--                                      in_ms makes of it
--   me, publish, place                 this proxy; PUBLISH or SPUBLISH; where the request stands in the
--                                      queue, or nil
-- The field s has these numbers, in this order:
--   readers                  how many there are
--   head, tail, waiters      the queue is q:<head> up to q:<tail - 1>, with holes; how many wait in it
--   offered, offer_end       the waiters before offered may take the lock until then
--   expires                  when the key does
--   readers_end              when the last lease of a reader ends; 0: not known
-- The queue begins at 1, so that a reader who becomes the writer can stand before all.
local function load_state(script, packed, writer)
  local readers, head, tail, waiters, offered, offer_end, expires, readers_end = string.match(
    packed or '0 1 1 0 0 0 ' .. string.match(writer or '0', '^%d+') .. ' 0',
    '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  expires = expires - 0 -- makes a number of it, quicker than tonumber does
  return { -- at once, because a table that grows costs more
    key = script.key, fence_key = script.fence_key, clock = script.clock, now = script.now, from = script.from,
    me = script.me, publish = script.publish, place = script.place,
    readers = readers - 0, readers_end = readers_end - 0, head = head - 0, tail = tail - 0, waiters = waiters - 0,
    offered = offered - 0, offer_end = offer_end - 0, expires = expires,
    packed = packed, expires_now = expires, -- as they are in Redis
    alive = {[script.me or ''] = true}, asleep = false,
  }
end

-- save(lock, ...) writes what changed, and the fields that it is given. When the key expires is set last: a
-- time that has come meanwhile deletes it, and what was written after that would stay for ever.
local function save(lock, ...)
  local packed = string.format('%d %d %d %d %d %d %d %d', lock.readers, lock.head, lock.tail, lock.waiters,
    lock.offered, lock.offer_end, lock.expires, lock.readers_end) -- table.concat takes long for numbers
  if packed ~= lock.packed then
    lock.packed = packed
    redis.call('HSET', lock.key, 's', packed, ...)
  elseif select('#', ...) > 0 then
    redis.call('HSET', lock.key, ...)
  end
  if lock.expires ~= lock.expires_now then
    lock.expires_now = lock.expires
    redis.call('PEXPIREAT', lock.key, lock.expires)
  end
end

-- outlast(lock, at) keeps the key until then, from the next save on. With a queue it is some time longer, so
-- that not every waiter moves it.
local function outlast(lock, at)
  if at > lock.expires then lock.expires = lock.waiters > 0 and at + 1000 or at end
end
