-- create(key, form, mode, token, fence, lease, now, from, keeper, id, note, memory) writes a lock that nobody
-- had, with its one hold and the field v as form says. It returns true if that is a plain lock. memory is
-- what the lock remembers, which stays for 20 s at least; or nil.
local function create(key, form, mode, token, fence, lease, now, from, keeper, id, note, memory)
  local expiry = from + lease
  if mode == 'w' and keeper == '' and note == '' and not memory then
    redis.call('SET', key, 'lockproxy 1 ' .. fence .. ' +' .. id .. ' ' .. token, 'PX', lease + 1)
    return true
  end
  local hold = table.concat({expiry, 1, fence, now, keeper == '' and '-' or keeper, '+' .. id}, ' ') .. note
  local expires = memory and math.max(expiry, now + 21000) or expiry
  if mode == 'w' then
    redis.call('HSET', key, 'v', form, 'o', token, 'w', hold)
    if memory then redis.call('HSET', key, 's', '0 1 1 0 0 0 ' .. expires .. ' 0') end
  else
    local packed, field = '1 1 1 0 0 0 ' .. expires .. ' ' .. expiry, 'r:' .. token
    redis.call('HSET', key, 'v', form, 's', packed, field, hold, 'm', '1', 'm:0', field .. ' ')
    if mode == 'p' then redis.call('HSET', key, 'pe', string.format('%d', expiry)) end
  end
  redis.call('PEXPIREAT', key, expires)
end
