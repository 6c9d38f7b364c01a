-- plain.lua reads what a key holds that exists: plain (its fence), plain_ids and owner are set
-- for a plain lock; otherwise it is a hash, or foreign. Needs key, kind.
local plain, plain_ids, owner
if kind == 'string' then
  plain, plain_ids, owner = string.match(redis.call('GET', key), '^lockproxy 1 (%d+) (%S+) (.*)$')
end
if not plain and kind ~= 'hash' then
  --#include foreign.lua
end
