-- read_plain(value) takes a string apart that is a plain lock: its fence, its requests, its owner. It returns
-- nil if the string is no lock.
local function read_plain(value) return string.match(value or '', '^lockproxy 1 (%d+) (%S+) (.*)$') end
