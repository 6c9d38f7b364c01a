-- tidy drops waiters and readers of a lock that are dead or whose time is over, and closes the holes in its
-- queue. acquire.lua asks for it (error TIDY) before it refuses a client because there are too many, and when
-- too many dead waiters keep it from finding out who is first.
--
-- KEYS  1  the lock
-- ARGV  1  most waiters, and behind a blank most readers, as acquire.lua has them
--       2  proxy
-- Reply 1
-- Effects: it looks at some of the waiters and of the readers, at most once a second, and goes on the next
--       time where it stopped. A queue of at most 200 waiters that is mostly holes has none afterwards.
local key, limits, proxy = KEYS[1], ARGV[1], ARGV[2]
local most_waiters, most_readers = string.match(limits, '^(%d*) ?(%d*)$')
--#include look.lua
--#include now.lua
if look(key) ~= 'hash' then return 1 end
--#include state.lua
--#include queue.lua
--#include readers.lua
--#include livereaders.lua
--#include tidied.lua
--#include crowded.lua
local version, writer, packed = unpack(redis.call('HMGET', key, 'v', 'w', 's'))
--#include islock.lua
if not is_lock(version) or not packed then return 1 end
local lock = load_state({key = key, now = in_ms(redis.call('TIME')), me = proxy}, packed, writer)

-- If a full Redis refused to note that this has run, acquire.lua would ask for it again and again.
--#include allowwrites.lua
allow_writes(key)

-- sweep looks at a thousand places, or until it has dropped 200 waiters.
local function sweep()
  local done, place = tidied(lock, 'd')
  if done then return end
  place = math.max(place or lock.head, lock.head)
  if place >= lock.tail then place = lock.head end
  local stop, least = math.min(lock.tail, place + 1000), lock.waiters - 200
  while place < stop and lock.waiters > least do
    local entry = redis.call('HGET', key, 'q:' .. place)
    if entry then
      local _, id, of_proxy, deadline = parse_entry(entry)
      if not is_alive(lock, of_proxy, deadline) then drop(lock, place, id) end
    end
    place = place + 1
  end
  redis.call('HSET', key, 'd', lock.now .. ' ' .. place)
end

-- close_up moves the waiters together. Holes arise where clients come and go behind one that stays.
local function close_up()
  local places, offered = {}, lock.head
  for _, field in ipairs(redis.call('HKEYS', key)) do
    local place = string.match(field, '^q:(%d+)$')
    if place then places[#places + 1] = tonumber(place) end
  end
  table.sort(places)
  lock.tail = lock.head
  for _, place in ipairs(places) do
    local entry = redis.call('HGET', key, 'q:' .. place)
    local _, id = parse_entry(entry)
    redis.call('HDEL', key, 'q:' .. place)
    redis.call('HSET', key, 'q:' .. lock.tail, entry, 'i:' .. id, lock.tail)
    lock.tail = lock.tail + 1
    if place < lock.offered then offered = lock.tail end
  end
  if lock.offered > 0 then lock.offered = offered end
end

most_waiters = tonumber(most_waiters)
if most_waiters then
  sweep()
  -- Closing up moves every waiter, so a long queue is left as it is.
  if lock.waiters <= 200 and lock.tail - lock.head > 2 * lock.waiters then close_up() end
end
crowded(lock, tonumber(most_readers))
save(lock)
return 1
