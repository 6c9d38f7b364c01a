-- closeup.lua moves the waiters together when there are many more holes between them than
-- waiters: whoever comes and goes behind one that stays leaves a hole. It is for few waiters, because it moves
-- them all. Needs state.lua.
local seqs = {}
for _, field in ipairs(redis.call('HKEYS', key)) do
  local seq = string.match(field, '^q:(%d+)$')
  if seq then seqs[#seqs + 1] = tonumber(seq) end
end
table.sort(seqs)
local offered = h
t = h
for _, seq in ipairs(seqs) do
  local q = redis.call('HGET', key, 'q:' .. seq)
  local _, id = parse(q)
  redis.call('HDEL', key, 'q:' .. seq)
  redis.call('HSET', key, 'q:' .. t, q, 'i:' .. id, t)
  t = t + 1
  if seq < z then offered = t end
end
if z > 0 then z = offered end
