-- unfold.lua makes a hash of a plain lock. Needs plain.lua, now.lua, whose times it brings up to date. In the last
-- millisecond of a lease the key is still there, so the hash lives long enough for this script to read it.
--
-- The server may stand still between any two commands, and before Redis 7.2 its clock goes on meanwhile. So the clock is
-- read behind the PTTL, or the lease would be cut short, and the time to live is a relative one: a moment that had
-- passed would delete the key.
if plain then
  local left = redis.call('PTTL', key)
  clock = redis.call('TIME')
  now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  from = now + math.min(clock[2] % 1000, 1)
  local e = now + left
  redis.call('DEL', key)
  redis.call('HSET', key, 'v', '1', 'o', owner, 'w', table.concat({e, 1, plain, math.floor(plain / 1000), '-', plain_ids}, ' '))
  redis.call('PEXPIRE', key, math.max(left, 100))
end
