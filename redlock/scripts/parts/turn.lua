-- turn.lua finds who waits first, and drops the dead before it. The table lock is that of load_state.

-- reads(lock, token) says that the token has a shared hold.
local function reads(lock, token)
  local hold = redis.call('HGET', lock.key, 'r:' .. token)
  return hold and tonumber(string.match(hold, '^%d+')) > lock.now
end

-- first(lock) is the first waiter that lives; the dead before it are dropped. A reader who waits to be the
-- writer is dead too when its shared hold is over. asleep says that waiters of this proxy have lost their
-- places.
--
-- A script looks at few places, so that Redis has time for others: a dead waiter costs as much as six places
-- that are empty. If no living one is found among them, the mode is ?: somebody may wait from head on. Until
-- that is known nobody else gets the lock. The next script goes on from there: see ask.
local looks = 1500
local function first(lock)
  while lock.head < lock.tail do
    if lock.waiters == 0 then
      lock.head = lock.tail
      return
    end
    local seq = lock.head
    if looks <= 0 then return seq, '?' end
    looks = looks - 1
    local entry = redis.call('HGET', lock.key, 'q:' .. seq)
    if entry then
      looks = looks - 5
      local mode, id, proxy, deadline, lease, token, keeper, meta = parse_entry(entry)
      if lives(lock, proxy, deadline) and (mode ~= 'u' or reads(lock, token)) then
        return seq, mode, id, proxy, lease, token, keeper, meta
      end
      drop(lock, seq, id)
      if seq == lock.place then
        lock.place = nil
      elseif proxy == lock.me then
        lock.asleep = true
      elseif not lock.alive[proxy] then
        redis.call('HDEL', lock.key, 'p:' .. proxy)
      end
    end
    lock.head = seq + 1
  end
end

-- lapse(lock) drops the waiters that did not take the lock in time, but not the one at place, who asks now.
-- Their proxies count as dead until they are heard again: the waiters of a crashed proxy cost half a second
-- once.
local function lapse(lock)
  if lock.offered == 0 or lock.offer_end > lock.now then return end
  looks = looks - math.max(lock.offered - lock.head, 0)
  for seq = lock.head, lock.offered - 1 do
    local entry = seq ~= lock.place and redis.call('HGET', lock.key, 'q:' .. seq)
    if entry then
      looks = looks - 5
      local _, id, proxy = parse_entry(entry)
      drop(lock, seq, id)
      redis.call('HDEL', lock.key, 'p:' .. proxy)
      lock.asleep = lock.asleep or proxy == lock.me
      lock.alive[proxy] = proxy == lock.me
    end
  end
  lock.offered, lock.offer_end = 0, 0
end
