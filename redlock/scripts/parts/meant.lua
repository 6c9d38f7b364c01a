-- meant(want, fence, ids, at) says whether a request means this hold, and not one that was there before.
--   want   what the request says: the fence of the grant; or the request's own id
--   fence  the fence of the hold
--   ids    its requests, or a text in which they begin at the byte at
--
-- An id is 8 letters and digits of the proxy, then a number that counts up. So a request with an id does not
-- mean a hold that its own proxy has asked for later. With a hold of another proxy only a fence is compared.
local function meant(want, fence, ids, at)
  local granted = string.match(ids, '^[~%w]*[%+!@]' .. string.sub(want, 1, 8) .. '(%w+)', at or 1)
  if granted then return tonumber(granted, 32) <= tonumber(string.sub(want, 9, 16), 32) end
  return want == fence or not string.find(want, '^%d+$')
end
