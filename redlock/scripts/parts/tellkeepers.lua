--#include keeperchannel.lua
-- tell_keepers(fence_name, word, kept) tells proxies what becomes of a hold that they keep alive. Otherwise
-- they would take it for lost.
local function tell_keepers(fence_name, word, kept)
  for keeper, proxy in string.gmatch(kept, '((%w+):%w+)') do
    redis.pcall('PUBLISH', keeper_channel(fence_name, proxy), word .. ' ' .. keeper)
  end
end
