-- deletes a key if it has the value: the release of SET NX PX
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
