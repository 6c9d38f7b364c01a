-- other_form(key, version, mode) is the error that a key is in use in another way than a request in that mode
-- wants it. version is the field v of the lock.
local function other_form(key, version, mode)
  local permits, name = string.match(version, '^permits (%d+)$'), string.gsub(key, '%c', ' ')
  if permits and mode == 'p' then
    return {err = 'PERMITS ' .. permits .. ' is how many this semaphore has while somebody holds or waits ' ..
      'for one of them: ask with that number, or again when nobody does'}
  elseif permits then
    return {err = 'LOCKTYPE the key ' .. name .. ' is a semaphore in use: take a permit of it ' ..
      'with SEMLOCK and PERMITS ' .. permits .. ', or use another name'}
  end
  return {err = 'LOCKTYPE the key ' .. name .. ' is a lock in use, and no semaphore: ' ..
    'take it with LOCK or RLOCK, use another name, or ask again when it is free'}
end
