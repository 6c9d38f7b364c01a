-- queue.lua is who waits for a lock, first come, first served. The table lock is that of load_state.
--
-- An entry of the queue is "mode id proxy deadline lease keeper size-of-token token" and, right behind the
-- token, the meta. The mode is w, r, or u for a reader who becomes the writer. The field i:<id> says where it
-- stands, and p:<proxy> until when that proxy counts as alive.
local function parse_entry(entry)
  local mode, id, proxy, deadline, lease, keeper, size, rest =
    string.match(entry, '^(%a) (%S+) (%S+) (%d+) (%d+) (%S+) (%d+) (.*)$')
  size = tonumber(size)
  local token, meta = string.sub(rest, 1, size), string.sub(rest, size + 1)
  return mode, id, proxy, tonumber(deadline), tonumber(lease), token, keeper, meta
end

-- drop(lock, seq, id) takes the waiter at seq out of the queue.
local function drop(lock, seq, id)
  if redis.call('HDEL', lock.key, 'q:' .. seq, 'i:' .. id) > 0 then lock.waiters = lock.waiters - 1 end
end

-- reads(lock, token) says that the token has a shared hold.
local function reads(lock, token)
  local hold = redis.call('HGET', lock.key, 'r:' .. token)
  return hold and tonumber(string.match(hold, '^%d+')) > lock.now
end

-- lives(lock, proxy, deadline) says that a waiter does. lock.alive is what is known of the proxies so far: that
-- this one lives.
local function lives(lock, proxy, deadline)
  if lock.alive[proxy] == nil then
    lock.alive[proxy] = (tonumber(redis.call('HGET', lock.key, 'p:' .. proxy)) or 0) > lock.now
  end
  return lock.alive[proxy] and deadline > lock.now
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

-- ask(lock) has one waiter of each proxy ask, so that their scripts find who is first.
local function ask(lock) redis.call(lock.publish, lock.key, '?') end

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

-- offer(lock, seq) reserves the free lock for half a second for the waiter at seq, or for it and the readers
-- that stand behind it, and wakes them.
local function offer(lock, seq)
  local woken, stop, i, mode, id = {}, math.min(lock.tail, seq + 1000), seq
  repeat
    mode, id = string.match(redis.call('HGET', lock.key, 'q:' .. i) or '', '^(%a) (%S+)')
    if mode and mode ~= 'r' and #woken > 0 then break end -- it stands behind readers
    woken[#woken + 1] = id
    i = i + 1
  until mode and mode ~= 'r' or i >= stop or #woken == 100
  lock.offered, lock.offer_end = i, lock.now + 500
  redis.call(lock.publish, lock.key, table.concat(woken, ' '))
end
