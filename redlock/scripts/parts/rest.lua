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
  local resting, listed = lock.permits and 'r:-' .. fence or 'r:-', {}
  local other = redis.call('HGET', lock.key, resting)
  if not other then
    listed = {enlist(lock, resting)}
    lock.readers = lock.readers + 1
  end
  local others_end = tonumber(string.match(other or '0', '^%d+'))
  if others_end < least then redis.call('HSET', lock.key, resting, hold, unpack(listed)) end
  lock.readers_end = math.max(lock.readers_end, others_end, least)
  -- It may end before the hold would have.
  local ends = lock.permits and tonumber(redis.call('HGET', lock.key, 'pe')) -- see permits.lua
  if ends and ends > least then redis.call('HSET', lock.key, 'pe', string.format('%d', least)) end
  if lock.waiters > 0 then tell_to_ask(lock) end
end
