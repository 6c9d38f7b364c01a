-- in_ms(clock) is the time in ms: first the one that runs, which says what is over; then the next one, from
-- which leases count and what is left of them, so that none ends before it was said to. clock is the reply of
-- TIME.
local function in_ms(clock)
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  return now, now + 1
end
