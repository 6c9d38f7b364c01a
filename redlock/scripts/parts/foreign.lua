-- foreign(key, kind) is the error that says what a key holds that is not one of our locks.
local function foreign(key, kind)
  local ttl = redis.call('PTTL', key)
  return {err = 'LOCKTYPE the key ' .. string.gsub(key, '%c', ' ') .. ' holds a ' .. kind .. ' that is no lock of lockproxy, ' ..
    (ttl < 0 and 'without a time to live' or 'with ' .. ttl .. ' ms to live') .. ': use another name, or delete the key'}
end
