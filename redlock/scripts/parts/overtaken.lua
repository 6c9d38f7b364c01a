-- overtaken(id, ids) says that the proxy of this request has made a later request that the hold knows of
-- (ids). So this one is a late copy, or was overtaken on its way. If a client still waits for its answer, the
-- proxy asks again with a new id.
local function overtaken(id, ids)
  for later in string.gmatch(ids, '[^%w,:%-]' .. string.sub(id, 1, 8) .. '(%w+)') do
    if tonumber(later, 32) > tonumber(string.sub(id, 9, 16), 32) then return true end
  end
  return false
end
