-- in_ms(clock) turns the reply of TIME into two times in ms, so that no lease ends before its client expects
-- it: the millisecond that runs, which decides what is over; and the next one, from which leases are counted.
local function in_ms(clock)
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  return now, now + 1
end
