-- read_plain(value) is what a string says that is a lock: its fence, its requests, and its owner; nil: it is none.
local function read_plain(value) return string.match(value or '', '^lockproxy 1 (%d+) (%S+) (.*)$') end
