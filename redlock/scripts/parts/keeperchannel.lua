-- keeper_channel(fence_key, proxy) is where a proxy hears what became of the holds that it keeps alive. It begins as
-- the name of the fence does.
local function keeper_channel(fence_key, proxy)
  return string.match(fence_key, '^(.*)fence:{') .. 'keeper:' .. proxy
end
