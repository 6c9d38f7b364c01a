-- keeper_renews(kept, keeper) is what is stored once that keeper ("" for any) has renewed the hold, and who
-- keeps it alive no more; nil if its proxy may not. It keeps it only once: another keeper there was in vain.
local function keeper_renews(kept, keeper)
  local mark, others = string.match(kept, '^[^!<]*(!?)(.*)$')
  if proxy_of(kept) == proxy_of(keeper) then return keeper .. mark, others end
  if keeper == '' or string.find(others, '<' .. proxy_of(keeper), 1, true) then return kept, '' end
end
