-- read_compat(key) is who holds a lock in the form of another library (see compattake.lua): a table, or nil
-- if nobody does, or nil and an error if the key holds something else. In the table:
--   text    the value of the key
--   left    ms that are left of its lease; -1: it has none
--   fence, owner, id, keeper   if lockproxy made the hold
local function read_compat(key)
  local text = redis.call('MGET', key)[1] -- unlike GET it does not fail on other types
  if not text then return nil, foreign(key) end
  local held = {text = text, left = redis.call('PTTL', key)}
  held.fence, held.owner, held.id, held.keeper =
    string.match(text, '^lockproxy:(%d+):(#%x+):(%w+%+?):(%S+)$')
  return held
end
