-- turn.lua finds the first waiter, and drops the dead ones before it. The table lock is that of load_state.

-- reads(lock, token) says that the token has a shared hold.
local function reads(lock, token)
  local hold = redis.call('HGET', lock.key, 'r:' .. token)
  return hold and tonumber(string.match(hold, '^%d+')) > lock.now
end

-- first(lock) is the first waiter that is alive: its place, mode and id. It drops the dead ones before it. A
-- reader that waits to become the writer is dead too once its shared hold is over. It sets lock.asleep if it
-- drops waiters of this proxy, which does not know that they have lost their places.
--
-- Others wait for Redis meanwhile, so one script has a limited number of looks: an empty place costs one, a
-- dead waiter six. When they are used up, the mode is ?: somebody may wait from lock.head on, and until that
-- is known nobody else gets the lock. The next script goes on from there.
local looks = 1500
local function first(lock)
  while lock.waiters > 0 and lock.head < lock.tail do
    local place = lock.head
    if looks <= 0 then return place, '?' end
    looks = looks - 1
    local entry = redis.call('HGET', lock.key, 'q:' .. place)
    if entry then
      looks = looks - 5
      local mode, id, proxy, deadline, _, token = parse_entry(entry)
      if is_alive(lock, proxy, deadline) and (mode ~= 'u' or reads(lock, token)) then
        return place, mode, id
      end
      drop(lock, place, id)
      if place == lock.place then
        lock.place = nil
      elseif proxy == lock.me then
        lock.asleep = true
      elseif not lock.alive[proxy] then
        redis.call('HDEL', lock.key, 'p:' .. proxy)
      end
    end
    lock.head = place + 1
  end
  lock.head = lock.tail
end

-- end_offer(lock) drops the waiters that did not take the lock while it was reserved for them, except the one
-- at lock.place, which asks now. Their proxies count as dead until they are heard again: so all waiters of a
-- crashed proxy cost the others half a second once.
--
-- Waiters of other proxies look as soon as the offer is over. If nobody has for half a second, then maybe
-- because this Redis was away, and those who were offered the lock could not ask either. They get another
-- offer. But if they do not take that, or nobody looks again in time, they are dropped.
local function end_offer(lock)
  if lock.offered == 0 or lock.offer_end > lock.now then return end
  local was_away, again = lock.now - lock.offer_end > 500, lock.now + 1000
  looks = looks - math.max(lock.offered - lock.head, 0)
  for place = lock.head, lock.offered - 1 do
    local entry = place ~= lock.place and redis.call('HGET', lock.key, 'q:' .. place)
    if entry then
      looks = looks - 5
      local _, id, proxy = parse_entry(entry)
      local alive_until = was_away and tonumber(redis.call('HGET', lock.key, 'p:' .. proxy)) or 0
      if alive_until > again then
        -- A full Redis may refuse this.
        redis.pcall('HSET', lock.key, 'p:' .. proxy, string.format('%d', again))
      elseif alive_until <= lock.now then
        drop(lock, place, id)
        redis.call('HDEL', lock.key, 'p:' .. proxy)
        lock.asleep = lock.asleep or proxy == lock.me
        lock.alive[proxy] = proxy == lock.me
      end
    end
  end
  lock.offered, lock.offer_end = 0, 0
end
