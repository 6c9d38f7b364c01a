-- foreign(key) is the error that a key holds something else than a lock of lockproxy; nil if it holds
-- nothing.
local function foreign(key)
  local kind = redis.call('TYPE', key)
  kind = kind.ok or kind
  if kind == 'none' then return nil end
  local ttl = redis.call('PTTL', key)
  local lives = ttl < 0 and 'without a time to live' or 'with ' .. ttl .. ' ms to live'
  return {err = 'LOCKTYPE the key ' .. string.gsub(key, '%c', ' ') .. ' holds a ' .. kind ..
    ' that is no lock of lockproxy, ' .. lives .. ': use another name, or delete the key'}
end
