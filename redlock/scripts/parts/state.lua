-- load_state(script, packed, writer) makes the table lock that most functions of the parts take. packed is
-- the field s of the lock, with all that it has beside its holds; writer is its field w. script is what the
-- script knows:
--   key, fence_key    the KEYS; the second may be missing
--   version           the field v of a lock that may be a semaphore
--   clock, now, from  the reply of TIME, and what in_ms makes of it
--   me, publish       this proxy; PUBLISH or SPUBLISH
--   place             where the request stands in the queue, or nil
-- The field s has these numbers, in this order:
--   readers                how many there are
--   head, tail, waiters    the queue is q:<head> to q:<tail - 1>, with holes; how many wait in it
--   offered, offer_end     waiters at places before offered may take the lock until offer_end
--   expires                when the key expires
--   readers_end            a time until which somebody reads for certain; of a semaphore, one until which no
--                          permit ends; 0: not known
-- Places begin at 1, so that a reader that is to become the writer can stand before all others.
local function load_state(script, packed, writer)
  local readers, head, tail, waiters, offered, offer_end, expires, readers_end = string.match(
    packed or '0 1 1 0 0 0 ' .. string.match(writer or '0', '^%d+') .. ' 0',
    '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  local permits = script.version and string.match(script.version, '^permits (%d+)$')
  expires = expires - 0 -- makes a number of a text, quicker than tonumber does
  return { -- all at once, because a table that grows costs more
    key = script.key, fence_key = script.fence_key, clock = script.clock,
    now = script.now, from = script.from, me = script.me, publish = script.publish, place = script.place,
    readers = readers - 0, readers_end = readers_end - 0,
    head = head - 0, tail = tail - 0, waiters = waiters - 0,
    offered = offered - 0, offer_end = offer_end - 0, expires = expires,
    permits = permits and permits - 0, -- how many a semaphore has; nil: it is a lock
    packed = packed, expires_now = expires, -- as they are in Redis
    alive = {[script.me or ''] = true}, asleep = false,
  }
end

-- save(lock, ...) writes what has changed, and the fields and values that it is given. It sets the expiry of
-- the key last: a time in the past deletes the key, and fields written after that would make a key that stays
-- for ever.
local function save(lock, ...)
  local packed = string.format('%d %d %d %d %d %d %d %d', lock.readers, lock.head, lock.tail, lock.waiters,
    lock.offered, lock.offer_end, lock.expires, lock.readers_end) -- table.concat is slow with numbers
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

-- outlast(lock, at) has the key live until then at least, from the next save on. A lock with a queue gets a
-- second more, so that not each new waiter has to move the expiry.
local function outlast(lock, at)
  if at > lock.expires then lock.expires = lock.waiters > 0 and at + 1000 or at end
end

-- reader_left(lock, expiry) notes that a reader has gone, whose lease would have ended then.
local function reader_left(lock, expiry)
  lock.readers = lock.readers - 1
  if lock.readers == 0 or (not lock.permits and expiry >= lock.readers_end) then lock.readers_end = 0 end
end
