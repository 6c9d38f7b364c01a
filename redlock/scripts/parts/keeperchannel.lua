-- keeper_channel(fence_key, proxy) is the channel on which a proxy hears what became of the holds that it
-- keeps alive. It has the prefix of all keys of the locks, which is read off the key of the fence.
local function keeper_channel(fence_key, proxy)
  return string.match(fence_key, '^(.*)fence:{') .. 'keeper:' .. proxy
end
