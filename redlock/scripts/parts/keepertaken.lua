--#include keeperchannel.lua
-- tell_taken(fence_name, before, kept) tells the proxy that kept a hold alive that another one does so now.
-- Otherwise it would take the hold for lost if that is freed before it asks again. before and kept are the
-- keepers, as stored. fence_name is the name of the key of the slot's fence; without it nobody is told.
local function tell_taken(fence_name, before, kept)
  local proxy = fence_name and fence_name ~= '' and string.match(before, '^(.*):')
  if proxy and proxy ~= string.match(kept, '^(.*):') then
    redis.pcall('PUBLISH', keeper_channel(fence_name, proxy), 'taken ' .. keeper_of(before))
  end
end
