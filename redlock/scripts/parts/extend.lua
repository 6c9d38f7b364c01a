--#include evenfull.lua
-- extend(key, token, lease, want, keeper, client, now, from) makes the lease of a hold longer, never shorter.
-- want is as in meant, now and from are as of in_ms.
--
-- The keeper must be that of the hold, unless client says that a client asks: then it is as in rely.
-- Returns the ms that remain and the fence; 0 if the token holds
-- nothing there, or a later grant; -1 if the hold has another keeper.
local function extend(key, token, lease, want, keeper, client, now, from)
  local s = redis.call('HMGET', key, 'o', 'w', 's', 'r:' .. token)
  local field, hold = 'r:' .. token, s[4]
  if s[1] == token then
    field, hold = 'w', s[2]
  end
  if not hold then return 0 end
  local e, n, f, since, kept, ids, note = parse_hold(hold)
  if e <= now or want ~= '' and not meant(want, f, ids) then return 0 end
  local keeps = kept
  if client then
    keeps = rely(kept, keeper)
  elseif keeper ~= bare(kept) then
    return -1
  end
  -- Whoever renews a hold relies on it: no request that made it can take it back any more.
  local relied = string.find(ids, '0000000000000000', 1, true)
  local longer = math.max(e, from + lease)
  if longer == e and relied and keeps == kept then return e - from, f end
  if not relied then ids = ids .. '=0000000000000000' end
  hold = pack_hold(longer, n, f, since, keeps, ids, note)
  even_full(key)
  if not s[3] then
    redis.call('HSET', key, field, hold)
    if longer > e then redis.call('PEXPIREAT', key, longer) end
    return longer - from, f
  end
  local others, x, ce = string.match(s[3], '^(.*) (%d+) (%d+)$')
  x, ce = tonumber(x), tonumber(ce)
  local grows = longer > x
  if grows then x = longer end
  if field ~= 'w' and ce > 0 and longer > ce then ce = longer end
  redis.call('HSET', key, field, hold, 's', table.concat({others, x, ce}, ' '))
  if grows then redis.call('PEXPIREAT', key, x) end
  return longer - from, f
end
