-- welcome_readers(lock) calls in those who stand first in the queue, now that others read.
local function welcome_readers(lock)
  if lock.waiters == 0 then return end
  lapse(lock)
  local seq, mode = first(lock)
  if mode == '?' then
    ask(lock)
  elseif seq and mode == 'r' and seq >= lock.offered then
    offer(lock, seq)
  end
end
