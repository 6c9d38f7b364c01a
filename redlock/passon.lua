-- passon.lua gives a lock that is not written on to who waits first. Needs state.lua, hold.lua.
-- A waiter of this very proxy gets it at once, since the proxy is alive to tell it, if near says
-- so; any other is offered it. A lock that is free and wanted by nobody is deleted. had says that
-- fields of a writer are there, request, if not nil, is a release, and noted with who got the lock by it: then u are
-- those before it.
-- Returns {1, id, fence, ttl ms} for a grant, or 1.
local function pass_on(had, request)
  local live = 0
  if c > 0 then live = readers() end
  if z > 0 and ze <= now then lapse() end
  local seq, mode, wid, proxy, lease, token, keeper, meta = first()
  if mode == 'u' then live = readers(token) end
  if not seq and live == 0 then
    redis.call('DEL', key)
    return 1
  end
  if mode == '?' then ask() end
  if seq and seq >= z and mode == 'w' and live == 0 and proxy == me and near then
    --#include fence.lua
    local f = next_fence(fence_key, clock)
    drop(seq, wid)
    h = seq + 1
    outlast(from + lease)
    local hold = pack_hold(from + lease, 1, f, now, keeper, '+' .. wid, meta == '' and '' or ' ' .. meta)
    if request then -- before the seven that came last
      save('o', token, 'w', hold, 'u', ' ' .. request .. '>' .. wid .. string.sub(u or '', 1, 7 * 34))
    else
      save('o', token, 'w', hold)
    end
    return {1, wid, tonumber(f), lease}
  end
  if seq and seq >= z and mode ~= '?' and (mode == 'r' or live == 0) then offer(seq) end
  if had then redis.call('HDEL', key, 'o', 'w') end
  save()
  return 1
end
