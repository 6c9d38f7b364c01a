--#include allowwrites.lua
--#include enlist.lua
-- rest(lock, field, ids, note) has a hold rest whose owner, or keeper, has given it up, if it is to go on
-- until a later time (ATLEAST, see noteof.lua): it becomes a hold of -, with the fence 0. No token has that
-- owner, and no grant that fence, so to all others the lock is held as before, also to proxies of versions
-- that know nothing of this. The table lock is that of load_state, ids and note are as parse_hold returns
-- them. The hold of a reader must be gone; that of all readers which rest is one. That of a writer is left in
-- lock.rest and lock.rest_end, for pass_on.
local function rest(lock, field, ids, note)
  local least = tonumber(string.match(note, '^\t(%d+)') or 0)
  if least <= lock.now then return end
  allow_writes(lock.key)
  local hold = pack_hold(least, 1, '0', lock.now, '-', ids, '')
  if field == 'w' then
    lock.rest, lock.rest_end = hold, least
    return
  end
  local other, listed = redis.call('HGET', lock.key, 'r:-'), {}
  if not other then
    listed = {enlist(lock, 'r:-')}
    lock.readers = lock.readers + 1
  end
  local others_end = tonumber(string.match(other or '0', '^%d+'))
  if others_end < least then redis.call('HSET', lock.key, 'r:-', hold, unpack(listed)) end
  lock.readers_end = math.max(lock.readers_end, others_end, least)
end
