-- offer.lua wakes those who wait. The table lock is that of load_state.

-- tell_to_ask(lock) makes one waiter of each proxy ask for the lock again. Their scripts find out who is
-- first.
local function tell_to_ask(lock) redis.call(lock.publish, lock.key, '?') end

-- offer(lock, place) reserves the free lock for half a second, and wakes those for whom it is: the waiter at
-- this place; or, if that is a reader, it and the readers right behind it; or as many as there are permits.
local function offer(lock, place)
  local woken, stop, i, mode, id = {}, math.min(lock.tail, place + 1000), place
  local most, alone = math.min(lock.permits and lock.permits - lock.readers or 100, 100)
  repeat
    mode, id = string.match(redis.call('HGET', lock.key, 'q:' .. i) or '', '^(%a) (%S+)')
    alone = mode == 'w' or mode == 'u'
    if alone and #woken > 0 then break end -- a writer behind readers
    woken[#woken + 1] = id
    i = i + 1
  until alone or i >= stop or #woken == most
  lock.offered, lock.offer_end = i, lock.now + 500
  redis.call(lock.publish, lock.key, table.concat(woken, ' '))
end
