-- passon.lua gives a lock that is not written on to who waits first. Needs state.lua, hold.lua.
-- A waiter of this very proxy gets it at once, since the proxy is alive to tell it, if near says
-- so; any other is offered it. A lock that is free and wanted by nobody is deleted. had says that
-- fields of a writer are there, request, if not nil, is a release, and noted with who got the lock by it: then u are
-- those before it, and it needs remember.lua.
-- Returns {1, id, fence, ttl ms} for a grant, or 1.
local function pass_on(had, request)
  -- note puts the request before the seven releases that came last.
  local function note(wid)
    return ' ' .. request .. '>' .. wid .. string.sub(u or '', 1, 7 * 34)
  end
  local live = 0
  if c > 0 then live = readers() end
  if z > 0 and ze <= now then lapse() end
  local seq, mode, wid, proxy, lease, token, keeper, meta = first()
  if mode == 'u' then live = readers(token) end
  if not seq and live == 0 then
    redis.call('DEL', key)
    if request then remember(request) end
    return 1
  end
  if seq and seq >= z and mode == 'w' and live == 0 and proxy == me and near then
    --#include fence.lua
    --#include putback.lua
    drop(seq, wid)
    h = seq + 1
    outlast(from + lease)
    local hold = pack_hold(from + lease, 1, f, now, keeper, '+' .. wid, meta == '' and '' or ' ' .. meta)
    if request then
      save('o', token, 'w', hold, 'u', note(wid))
    else
      save('o', token, 'w', hold)
    end
    return {1, wid, tonumber(f), lease}
  end
  if seq and seq >= z and (mode == 'r' or live == 0) then offer(seq) end
  if had then redis.call('HDEL', key, 'o', 'w') end
  if request then
    save('u', note(''))
  else
    save()
  end
  return 1
end
