-- kind.lua says what type of key it is. Needs key.
local kind = redis.call('TYPE', key)
kind = kind.ok or kind
