-- read_compat(form, key) is who holds a lock in the form of another library (see compattake.lua): a table,
-- or nil if nobody does, or nil and an error if the key holds something else. In the table:
--   text    the value of the key, or the field of the hash
--   count   how often it is held
--   left    ms that are left of its lease; -1: it has none
--   fence, owner, id, keeper   if lockproxy made the hold
local function read_compat(form, key)
  local text, count
  if form == 'redisson' then
    local fields = redis.pcall('HLEN', key)
    if fields == 0 then return nil end
    if fields ~= 1 then return nil, foreign(key) end
    text, count = unpack(redis.call('HGETALL', key))
  else
    text = redis.call('MGET', key)[1] -- unlike GET it does not fail on other types
    if not text then return nil, foreign(key) end
  end
  local held = {text = text, count = tonumber(count or '1') or 1, left = redis.call('PTTL', key)}
  held.fence, held.owner, held.id, held.keeper =
    string.match(text, '^lockproxy:(%d+):(#%x+):(%w+%+?):(%S+)$')
  return held
end
