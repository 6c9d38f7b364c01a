-- A keeper with a ! behind it still renews the hold but does not free it at the end: another client has asked
-- for the hold since, and relies on it. keeper_of(kept) is the keeper without that mark.
local function keeper_of(kept) return string.match(kept, '^[^!]*') end
