-- now.lua is the time in ms: now, the one that runs, which says what is over, and from, the next one, from which
-- leases count and what is left of them, so that none ends before it was said to. Needs clock.
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local from = now + math.min(clock[2] % 1000, 1)
