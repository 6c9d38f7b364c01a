-- create(key, form, mode, token, fence, lease, now, from, keeper, id, note) writes a lock that nobody had,
-- with its one hold and the field v as form says. It returns true if that is a plain lock.
local function create(key, form, mode, token, fence, lease, now, from, keeper, id, note)
  local expiry = from + lease
  if mode == 'w' and keeper == '' and note == '' then
    redis.call('SET', key, 'lockproxy 1 ' .. fence .. ' +' .. id .. ' ' .. token, 'PX', lease + 1)
    return true
  end
  local hold = table.concat({expiry, 1, fence, now, keeper == '' and '-' or keeper, '+' .. id}, ' ') .. note
  if mode == 'w' then
    redis.call('HSET', key, 'v', form, 'o', token, 'w', hold)
  else
    local packed, field = '1 1 1 0 0 0 ' .. expiry .. ' ' .. expiry, 'r:' .. token
    redis.call('HSET', key, 'v', form, 's', packed, field, hold, 'm', '1', 'm:0', field .. ' ')
  end
  redis.call('PEXPIREAT', key, expiry)
end
