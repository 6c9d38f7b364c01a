-- overtaken.lua says that the proxy that made a request, by its id, has made a later one since that a hold
-- tells of among its requests (ids). So the request is a late copy, or one that was overtaken on its way:
-- whoever still waits for its answer makes it anew.
local function overtaken(id, ids)
  for later in string.gmatch(ids, '[^%w,%-]' .. string.sub(id, 1, 8) .. '(%w+)') do
    if tonumber(later, 32) > tonumber(string.sub(id, 9, 16), 32) then return true end
  end
  return false
end
