-- unfold.lua makes a hash of a plain lock. Needs plain.lua, now.lua. In the last millisecond of a
-- lease the key is still there, so the hash lives long enough for this script to read it.
if plain then
  local left, at = redis.call('PTTL', key), now
  if clock[2] % 1000 > 800 then -- the ms may have changed since the clock was read
    local later = redis.call('TIME')
    at = later[1] * 1000 + math.floor(later[2] / 1000)
  end
  local e = at + left
  redis.call('DEL', key)
  redis.call('HSET', key, 'v', '1', 'o', owner, 'w', table.concat({e, 1, plain, math.floor(plain / 1000), '-', plain_ids}, ' '))
  redis.call('PEXPIREAT', key, math.max(e, now + 100))
end
