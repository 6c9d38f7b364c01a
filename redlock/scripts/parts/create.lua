-- create(key, mode, token, f, lease, now, from, keeper, id, note) writes a lock that nobody had: its only hold,
-- with the fence f. It says whether the lock is plain: not if its fence is still to come.
local function create(key, mode, token, f, lease, now, from, keeper, id, note)
  local e = from + lease
  if mode == 'w' and keeper == '' and note == '' and string.byte(f) ~= 48 then
    redis.call('SET', key, 'lockproxy 1 ' .. f .. ' +' .. id .. ' ' .. token, 'PX', lease + 1)
    return true
  end
  local hold = table.concat({e, 1, f, now, keeper == '' and '-' or keeper, '+' .. id}, ' ') .. note
  if mode == 'w' then
    redis.call('HSET', key, 'v', '1', 'o', token, 'w', hold)
  else
    local s, field = '1 1 1 0 0 0 ' .. e .. ' ' .. e, 'r:' .. token
    redis.call('HSET', key, 'v', '1', 's', s, field, hold, 'm', '1', 'm:0', field .. ' ')
  end
  redis.call('PEXPIREAT', key, e)
end
