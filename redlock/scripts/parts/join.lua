-- join.lua is what a waiter needs that joins the queue. The table lock is that of load_state.

-- pack_entry makes an entry of the queue, as queue.lua says.
local function pack_entry(mode, id, proxy, deadline, lease, keeper, token, meta)
  return string.format('%s %s %s %d %d %s %d ', mode, id, proxy, deadline, lease, keeper == '' and '-' or keeper,
    #token) .. token .. meta
end

-- sweep(lock) drops the dead wherever they stand: once a second at most, and among a thousand places or until
-- it has found 200, because it looks at each; the next time it goes on where it stopped.
local function sweep(lock)
  local at, seq = string.match(redis.call('HGET', lock.key, 'd') or '', '^(%d+) ?(%d*)$')
  if (tonumber(at or '') or 0) + 1000 > lock.now then return end
  seq = math.max(tonumber(seq or '') or lock.head, lock.head)
  if seq >= lock.tail then seq = lock.head end
  local stop, most = math.min(lock.tail, seq + 1000), lock.waiters - 200
  while seq < stop and lock.waiters > most do
    local entry = redis.call('HGET', lock.key, 'q:' .. seq)
    if entry then
      local _, id, proxy, deadline = parse_entry(entry)
      if not lives(lock, proxy, deadline) then drop(lock, seq, id) end
    end
    seq = seq + 1
  end
  redis.call('HSET', lock.key, 'd', lock.now .. ' ' .. seq)
end

-- close_up(lock) moves the waiters together when there are many more holes between them than waiters: whoever
-- comes and goes behind one that stays leaves a hole. It is for few waiters, because it moves them all.
local function close_up(lock)
  local seqs, offered = {}, lock.head
  for _, field in ipairs(redis.call('HKEYS', lock.key)) do
    local seq = string.match(field, '^q:(%d+)$')
    if seq then seqs[#seqs + 1] = tonumber(seq) end
  end
  table.sort(seqs)
  lock.tail = lock.head
  for _, seq in ipairs(seqs) do
    local entry = redis.call('HGET', lock.key, 'q:' .. seq)
    local _, id = parse_entry(entry)
    redis.call('HDEL', lock.key, 'q:' .. seq)
    redis.call('HSET', lock.key, 'q:' .. lock.tail, entry, 'i:' .. id, lock.tail)
    lock.tail = lock.tail + 1
    if seq < lock.offered then offered = lock.tail end
  end
  if lock.offered > 0 then lock.offered = offered end
end

-- make_room(lock, most) sees to it that the queue is not full of holes, nor, if it can, of the dead. most is
-- how many may wait. It says whether one more may.
local function make_room(lock, most)
  local holes = 10 * math.min(most, math.max(lock.waiters, 100))
  if lock.tail - lock.head >= holes then first(lock) end
  if lock.waiters >= most then sweep(lock) end
  if lock.tail - lock.head >= holes and lock.waiters < most and lock.waiters <= 200 then close_up(lock) end
  return lock.waiters < most
end
