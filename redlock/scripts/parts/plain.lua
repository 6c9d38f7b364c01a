-- read_plain(value) takes a string apart that is a plain lock: its fence, its requests, its owner. It returns
-- nil if the string is no lock. Scripts read the key by MGET, which unlike GET does not fail on a hash.
local function read_plain(value) return string.match(value or '', '^lockproxy 1 (%d+) (%S+) (.*)$') end
