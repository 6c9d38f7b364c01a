-- tidy drops the waiters and the readers of a lock that have gone without a word, and closes the holes in its
-- queue. acquire.lua asks for it (TIDY) before it refuses one more, or when it does not know yet who is first.
--
-- KEYS  1 the lock
-- ARGV  1 most waiters, and behind a blank most readers, as acquire.lua has them   2 proxy
-- Reply 1
-- Effects those who have gone are gone. It looks for them once a second at most, among some waiters and some
--       readers: the next time it goes on where it stopped. A queue of 200 that is mostly holes has none left
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
local s = redis.call('HMGET', key, 'v', 'w', 's')
if s[1] ~= '1' or not s[3] then return 1 end
local lock = load_state({key = key, now = in_ms(redis.call('TIME')), me = proxy}, s[3], s[2])

--#include evenfull.lua
even_full(key) -- there must be an end to asking for this

-- sweep looks among a thousand places, or until it has found 200 who have gone.
local function sweep()
  local done, seq = tidied(lock, 'd')
  if done then return end
  seq = math.max(seq or lock.head, lock.head)
  if seq >= lock.tail then seq = lock.head end
  local stop, least = math.min(lock.tail, seq + 1000), lock.waiters - 200
  while seq < stop and lock.waiters > least do
    local entry = redis.call('HGET', key, 'q:' .. seq)
    if entry then
      local _, id, of, deadline = parse_entry(entry)
      if not lives(lock, of, deadline) then drop(lock, seq, id) end
    end
    seq = seq + 1
  end
  redis.call('HSET', key, 'd', lock.now .. ' ' .. seq)
end

-- close_up moves the waiters together: whoever comes and goes behind one that stays leaves a hole.
local function close_up()
  local seqs, offered = {}, lock.head
  for _, field in ipairs(redis.call('HKEYS', key)) do
    local seq = string.match(field, '^q:(%d+)$')
    if seq then seqs[#seqs + 1] = tonumber(seq) end
  end
  table.sort(seqs)
  lock.tail = lock.head
  for _, seq in ipairs(seqs) do
    local entry = redis.call('HGET', key, 'q:' .. seq)
    local _, id = parse_entry(entry)
    redis.call('HDEL', key, 'q:' .. seq)
    redis.call('HSET', key, 'q:' .. lock.tail, entry, 'i:' .. id, lock.tail)
    lock.tail = lock.tail + 1
    if seq < lock.offered then offered = lock.tail end
  end
  if lock.offered > 0 then lock.offered = offered end
end

most_waiters = tonumber(most_waiters)
if most_waiters then
  sweep()
  if lock.waiters <= 200 and lock.tail - lock.head > 2 * lock.waiters then close_up() end -- it moves them all
end
crowded(lock, tonumber(most_readers))
save(lock)
return 1
