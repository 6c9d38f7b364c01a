--#include ownhold.lua
--#include allowwrites.lua
-- extend(key, token, lease, want, keeper, by_client, now, from) makes the lease of a hold longer, never
-- shorter. want is as in meant; now and from are as in_ms returns them. If a client asks (by_client), the
-- hold gets the keeper that keeper_after says; if a keeper does, the one that keeper_renews says, or "" asks
-- for any. With the lease 0 it only asks how long the hold lasts.
--
-- It returns the ms that remain, the fence, and the keepers that keep it alive no more; 0 if the token has no
-- hold, or only one of a later grant; -1 if no keeper of that proxy keeps it alive.
local function extend(key, token, lease, want, keeper, by_client, now, from)
  local field, hold, packed, _, _, version = own_hold(key, token)
  if not hold then return 0 end
  local expiry, count, fence, since, kept, ids, note = parse_hold(hold)
  if expiry <= now or want ~= '' and not meant(want, fence, ids) then return 0 end
  local keeps = by_client and keeper_after or keeper_renews
  local new_kept, others = keeps(kept, keeper)
  if not new_kept then return -1 end
  if not by_client and lease == 0 then return expiry - from end
  -- A client that has renewed the hold relies on it. The id that stands for renewals says so, and from then
  -- on the requests that made the hold cannot be cancelled.
  local renewed = string.find(ids, '0000000000000000', 1, true)
  local longer = math.max(expiry, from + lease)
  if longer == expiry and renewed and new_kept == kept then return expiry - from, fence end
  if not renewed then ids = ids .. '=0000000000000000' end
  hold = pack_hold(longer, count, fence, since, new_kept, ids, note)
  allow_writes(key)
  if not packed then
    redis.call('HSET', key, field, hold)
    if longer > expiry then redis.call('PEXPIREAT', key, longer) end
    return longer - from, fence, others
  end
  local counts, expires, readers_end = string.match(packed, '^(.*) (%d+) (%d+)$') -- as state.lua says
  expires, readers_end = tonumber(expires), tonumber(readers_end)
  local grows = longer > expires
  if grows then expires = longer end
  if field ~= 'w' and version == '1' then readers_end = math.max(readers_end, longer) end
  redis.call('HSET', key, field, hold, 's', table.concat({counts, expires, readers_end}, ' '))
  if grows then redis.call('PEXPIREAT', key, expires) end
  return longer - from, fence, others
end
