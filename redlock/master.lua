-- master.lua: other is the error that no new grant is made, if another server is the master here
-- than the one that ARGV 12 names, a replication id of Redis. A server that was promoted, or came
-- back without its memory, has a new one; how many seconds it has been up says when it may have come back.
local other
if ARGV[12] and ARGV[12] ~= '' then
  local info = redis.call('INFO', 'replication')
  local is, was = string.match(info, 'master_replid:(%x+)'), string.match(info, 'master_replid2:(%x+)')
  if is ~= ARGV[12] then
    local up = string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)')
    other = {err = 'MASTER ' .. is .. ' ' .. was .. ' ' .. up}
  end
end
