-- unfold.lua makes a hash of a plain lock. Needs plain.lua, now.lua. In the last millisecond of a
-- lease the key is still there, so the hash lives long enough for this script to read it.
if plain then
  local e = now + redis.call('PTTL', key)
  if clock[2] % 1000 > 800 then e = e + 1 end -- the ms may have changed since the clock was read
  redis.call('DEL', key)
  redis.call('HSET', key, 'v', '1', 'o', owner, 'w', table.concat({e, 1, plain, math.floor(plain / 1000), '-', plain_ids}, ' '))
  redis.call('PEXPIREAT', key, math.max(e, now + 100))
end
