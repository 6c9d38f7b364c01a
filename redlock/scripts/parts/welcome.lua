-- welcome(lock) offers the lock to those at the front of the queue who may share it with its holders:
-- readers, or as many as there are permits left.
local function welcome(lock)
  if lock.waiters == 0 then return end
  end_offer(lock)
  local place, mode = first(lock)
  if mode == '?' then
    tell_to_ask(lock)
  elseif place and place >= lock.offered and (mode == 'r' or mode == 'p' and free_permits(lock) > 0) then
    offer(lock, place)
  end
end
