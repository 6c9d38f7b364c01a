-- memory.lua is what a lock knows of the UNLOCKs that it has answered: its field a, " id>answer" for each,
-- newest first. The answer is 1 for released, 0 for counted down, or the id of the waiter that got the lock.
-- A lock that is free stays for 20 s with its memory and nothing else.

-- recalled(memory, id) is the answer that this UNLOCK got when it came before; nil: it is not known.
local function recalled(memory, id) return memory and string.match(memory, ' ' .. id .. '>([%w,]+)') end

-- remembered(memory, id, answer) is the memory with one more answer: of the last 33, or of fewer with longer
-- ids, but 12 at least.
local function remembered(memory, id, answer)
  return string.sub(' ' .. id .. '>' .. answer .. (memory or ''), 1, 640)
end
