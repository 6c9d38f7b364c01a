-- keeper_renews(kept, keeper) is what is stored once that keeper ("" for any) has renewed the hold, and who
-- keeps it alive no more; nil if its proxy may not. Any of its keepers may: the last may have been in vain.
local function keeper_renews(kept, keeper)
  local first, mark, others = string.match(kept, '^([^!<]*)(!?)(.*)$')
  if keeper == first then return first .. mark, others end -- only then: it may be in use since just now
  if keeper == '' or string.find('<' .. kept, '<' .. proxy_of(keeper), 1, true) then return kept, '' end
end
