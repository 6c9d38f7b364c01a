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

-- lives(lock, proxy, deadline) says that a waiter does. lock.alive is what is known of the proxies so far: that
-- this one lives.
local function lives(lock, proxy, deadline)
  if lock.alive[proxy] == nil then
    lock.alive[proxy] = (tonumber(redis.call('HGET', lock.key, 'p:' .. proxy)) or 0) > lock.now
  end
  return lock.alive[proxy] and deadline > lock.now
end

-- ask(lock) has one waiter of each proxy ask, so that their scripts find who is first.
local function ask(lock) redis.call(lock.publish, lock.key, '?') end

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
