--#include fence.lua
-- pass_on(lock, had, near, request, answered) gives a lock that is not written on to who waits first. A
-- waiter of this very proxy gets it at once, since the proxy is alive to tell it, if near says so; any other
-- is offered it. A lock that is free and wanted by nobody is deleted. had says that fields of a writer are
-- there. request, if not nil, is a release, and noted with who got the lock by it; answered are those before
-- it, the field u. It returns {1, id, fence, ttl ms} for a grant, or 1.
local function pass_on(lock, had, near, request, answered)
  local read = read_until(lock)
  lapse(lock)
  local seq, mode, wid, proxy, lease, token, keeper, meta = first(lock)
  if mode == 'u' then read = read_until(lock, token) end
  if not seq and not read then
    redis.call('DEL', lock.key)
    return 1
  end
  if mode == '?' then ask(lock) end
  if seq and seq >= lock.offered and mode == 'w' and not read and proxy == lock.me and near then
    local f, e = next_fence(lock.fence_key, lock.clock), lock.from + lease
    drop(lock, seq, wid)
    lock.head = seq + 1
    outlast(lock, e)
    local hold = pack_hold(e, 1, f, lock.now, keeper, '+' .. wid, meta == '' and '' or ' ' .. meta)
    if request then -- before the seven that came last
      save(lock, 'o', token, 'w', hold, 'u', ' ' .. request .. '>' .. wid .. string.sub(answered or '', 1, 7 * 34))
    else
      save(lock, 'o', token, 'w', hold)
    end
    return {1, wid, tonumber(f), lease}
  end
  if seq and seq >= lock.offered and mode ~= '?' and (mode == 'r' or not read) then offer(lock, seq) end
  if had then redis.call('HDEL', lock.key, 'o', 'w') end
  save(lock)
  return 1
end
