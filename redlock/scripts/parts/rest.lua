--#include allowwrites.lua
--#include enlist.lua
-- rest(lock, field, fence, ids, note) has a hold rest whose owner, or keeper, has given it up, if it is to go
-- on until a later time (ATLEAST, see noteof.lua): it becomes a hold of -, with the fence 0. No token has
-- that owner, and no grant that fence, so to all others the lock is held as before, also to proxies of
-- versions that know nothing of this. The table lock is that of load_state; fence, ids and note are as
-- parse_hold returns them.
--
-- The hold of a writer is left in lock.rest and lock.rest_end, for pass_on. That of a reader must be gone.
-- All readers that rest are one hold, r:-, because only the last end matters. Permits are counted, so each
-- that rests has a hold of its own: r:- and the fence that it had. Those who wait are told to ask, because
-- they reckon with the end of the lease.
local function rest(lock, field, fence, ids, note)
  local least = tonumber(string.match(note, '^\t(%d+)') or 0)
  if least <= lock.now then return end
  allow_writes(lock.key)
  local hold = pack_hold(least, 1, '0', lock.now, '-', ids, '')
  if field == 'w' then
    lock.rest, lock.rest_end = hold, least
    return
  end
  local resting = lock.permits and 'r:-' .. fence or 'r:-'
  local other = redis.call('HGET', lock.key, resting)
  if other then -- of readers: no two permits rest in one field
    local others_end = tonumber(string.match(other, '^%d+'))
    lock.readers_end = math.max(lock.readers_end, others_end, least)
    if others_end < least then redis.call('HSET', lock.key, resting, hold) end
  else
    redis.call('HSET', lock.key, resting, hold, enlist(lock, resting, least))
  end
  if lock.waiters > 0 then tell_to_ask(lock) end
end
