-- other_master(wanted) is the error that no new grant is made, if another server is the master here than the
-- one that wanted names, a replication id of Redis; else nil. A server that was promoted, or came back
-- without its memory, has a new one; how many seconds it has been up says when it may have come back.
local function other_master(wanted)
  local info = redis.call('INFO', 'replication')
  local is, was = string.match(info, 'master_replid:(%x+)'), string.match(info, 'master_replid2:(%x+)')
  if is == wanted then return nil end
  local up = string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)')
  return {err = 'MASTER ' .. is .. ' ' .. was .. ' ' .. up}
end
