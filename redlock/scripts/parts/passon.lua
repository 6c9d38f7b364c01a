--#include fence.lua
-- head_of(lock) is who waits first, as parse_entry says it, if that is plain to see: it lives, and at most a few
-- empty places are before it. Else its mode is ?: acquire.lua looks further. It is nil if nobody waits.
local function head_of(lock)
  if lock.waiters == 0 then return nil end
  local entry
  for _ = 1, math.min(lock.tail - lock.head, 100) do
    entry = redis.call('HGET', lock.key, 'q:' .. lock.head)
    if entry then break end
    lock.head = lock.head + 1
  end
  if not entry or lock.head < lock.offered and lock.offer_end <= lock.now then return '?' end
  local mode, id, proxy, deadline, lease, token, keeper, meta = parse_entry(entry)
  if mode == 'u' or not lives(lock, proxy, deadline) then return '?' end
  return mode, id, proxy, lease, token, keeper, meta
end

-- pass_on(lock, had, near, request, answered) gives a lock that is not written on to who waits first. A
-- waiter of this very proxy gets it at once, since the proxy is alive to tell it, if near says so; any other
-- is offered it. If it is not plain who is first, the waiters are asked. A lock that is free and wanted by
-- nobody is deleted. had says that fields of a writer are there. request, if not nil, is a release, and noted
-- with who got the lock by it, or 0 if there is no key of fences to note it behind; answered are those before
-- it, the field u. It returns {1, id, fence, ttl ms} for a grant, or 1.
--
-- Redis may be full: what deletes comes before what may need memory (see evenfull.lua).
local function pass_on(lock, had, near, request, answered)
  local read = read_until(lock)
  local noted = {}
  if request and not lock.fence_key then
    noted = {'u', ' ' .. request .. '>0' .. string.sub(answered or '', 1, 7 * 34)}
  end
  if lock.waiters == 0 and not read then
    if not noted[1] then
      redis.call('DEL', lock.key)
      return 1
    end
    lock.expires = lock.now + 20000
  end
  local mode, id, proxy, lease, token, keeper, meta = head_of(lock)
  local free = lock.head >= lock.offered -- nobody was offered it
  if free and mode == 'w' and not read and proxy == lock.me and near then
    drop(lock, lock.head, id)
    local f, e = next_fence(lock.fence_key, lock.clock), lock.from + lease
    lock.head = lock.head + 1
    outlast(lock, e)
    local hold = pack_hold(e, 1, f, lock.now, keeper, '+' .. id, meta == '' and '' or ' ' .. meta)
    if request then -- before the seven that came last
      save(lock, 'o', token, 'w', hold, 'u', ' ' .. request .. '>' .. id .. string.sub(answered or '', 1, 7 * 34))
    else
      save(lock, 'o', token, 'w', hold)
    end
    return {1, id, tonumber(f), lease}
  end
  if mode == '?' then
    ask(lock)
  elseif free and (mode == 'r' or mode == 'w' and not read) then
    offer(lock, lock.head)
  end
  if had then redis.call('HDEL', lock.key, 'o', 'w') end
  save(lock, unpack(noted))
  return 1
end
