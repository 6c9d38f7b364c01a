--#include keeperchannel.lua
-- end_holds(lock, writer, fence_key, fence_name, goes, but) ends the holds of a lock, what rests too, and
-- tells the proxies that keep them alive. lock is the table of load_state, and writer its field w, which is
-- left for the caller to delete or to write.
--   fence_key   the fence of the slot, or nil. It becomes no lower than those of the holds that end.
--   fence_name  its name
--   goes        goes(fence, hold, at) says whether a hold is to end; its requests begin at the byte at
--   but         the field of a reader whose hold goes on, or nil
-- It returns three flags: holds have ended by this, not by the end of their leases; some more are to end, but
-- that is enough for one script; others go on, because goes says so.
local function end_holds(lock, writer, fence_key, fence_name, goes, but)
  local broken, more, spared, highest, keepers_of = false, false, false, 0, {}
  -- ends(hold) says that a hold ends by this, or is over. It notes its fence, and for each proxy the keepers
  -- whose holds end.
  local function ends(hold)
    -- Not parse_hold, which would copy the requests and the meta of a thousand readers.
    local expiry, fence, kept, ids_at = string.match(hold, '^(%d+) %d+ (%d+) %d+ (%S+) ()')
    if tonumber(expiry) <= lock.now then return true end
    if not goes(fence, hold, ids_at) then
      spared = true
      return false
    end
    broken, highest = true, math.max(highest, tonumber(fence))
    for keeper, proxy in string.gmatch(kept, '((%w+):%w+)') do
      keepers_of[proxy] = keepers_of[proxy] or {}
      table.insert(keepers_of[proxy], keeper)
    end
    return true
  end

  if writer and not ends(writer) then return false, false, true end
  for fields, holds, _, enough in reader_holds(lock.key) do
    local gone = {}
    for i, hold in ipairs(holds) do
      if fields[i] ~= but and ends(hold) then gone[#gone + 1] = fields[i] end
    end
    if #gone > 0 then
      redis.call('HDEL', lock.key, unpack(gone))
      lock.readers, lock.readers_end = lock.readers - #gone, 0
      more = enough and lock.readers > 0
      if more then break end
    end
  end
  for proxy, keepers in pairs(keepers_of) do
    redis.call('PUBLISH', keeper_channel(fence_name, proxy), 'broken ' .. table.concat(keepers, ' '))
  end
  if fence_key and last_fence(fence_key) < highest then
    allow_writes(lock.key)
    redis.call('SETRANGE', fence_key, 0, string.format('%.0f', highest))
  end
  return broken, more, spared
end
