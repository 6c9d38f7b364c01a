-- welcome_readers(lock) offers the lock to the readers at the front of the queue, now that others read it.
local function welcome_readers(lock)
  if lock.waiters == 0 then return end
  end_offer(lock)
  local place, mode = first(lock)
  if mode == '?' then
    tell_to_ask(lock)
  elseif place and mode == 'r' and place >= lock.offered then
    offer(lock, place)
  end
end
