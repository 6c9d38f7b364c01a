-- queue.lua is the queue of a lock, first come, first served. The table lock is that of load_state.
--
-- An entry of the queue is the field q:<place>:
-- "mode id proxy deadline lease keeper size-of-token token", and right behind the token the meta. The mode
-- is w, r, p, or u for a reader that is to become the writer. The field i:<id> has the place of a waiter, and
-- p:<proxy> says until when a proxy counts as alive: for 15 s since it was heard. A Redis that is away hears
-- nobody, and for about so long those who wait try again.
local function parse_entry(entry)
  local mode, id, proxy, deadline, lease, keeper, size, rest =
    string.match(entry, '^(%a) (%S+) (%S+) (%d+) (%d+) (%S+) (%d+) (.*)$')
  size = tonumber(size)
  local token, meta = string.sub(rest, 1, size), string.sub(rest, size + 1)
  return mode, id, proxy, tonumber(deadline), tonumber(lease), token, keeper, meta
end

-- drop(lock, place, id) takes a waiter out of the queue.
local function drop(lock, place, id)
  local gone = redis.call('HDEL', lock.key, string.format('q:%d', place), 'i:' .. id)
  if gone > 0 then lock.waiters = lock.waiters - 1 end
end

-- is_alive(lock, proxy, deadline) says that a waiter still waits: its proxy is alive and its deadline has not
-- come. lock.alive keeps what is known of the proxies.
local function is_alive(lock, proxy, deadline)
  if lock.alive[proxy] == nil then
    lock.alive[proxy] = (tonumber(redis.call('HGET', lock.key, 'p:' .. proxy)) or 0) > lock.now
  end
  return lock.alive[proxy] and deadline > lock.now
end
