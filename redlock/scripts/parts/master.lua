-- other_master(wanted) compares the replication id of this master with the one that the proxy knows. If they
-- differ, it returns the error that nothing new is granted here; otherwise nil.
--
-- A server that was promoted, or has restarted without its data, has a new replication id. The error tells
-- the proxy that id, the one before, and for how many seconds the server has been up.
local function other_master(wanted)
  local info = redis.call('INFO', 'replication')
  local is, was = string.match(info, 'master_replid:(%x+)'), string.match(info, 'master_replid2:(%x+)')
  if is == wanted then return nil end
  local up = string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)')
  return {err = 'MASTER ' .. is .. ' ' .. was .. ' ' .. up}
end
