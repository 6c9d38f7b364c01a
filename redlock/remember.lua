-- remember.lua notes a release that left nothing of its lock beside the fence of the slot, and behind it those that the
-- lock remembered (u): four in all. Needs KEYS[2], u.
local function remember(request)
  for before in string.gmatch(u or '', ' (%w+)>') do request = request .. '~' .. before end
  redis.pcall('SETRANGE', KEYS[2], '16', string.sub(' ' .. request, 1, 68))
end
