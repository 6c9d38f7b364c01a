-- What is stored as the keeper of a hold (kept) is the one that was asked for last. With a ! behind it, it
-- does not free the hold at the end: another client has asked for that since, and relies on it. Behind that
-- are keepers of other proxies, each behind a <, which renew the hold, too, until the first one has done so,
-- as its request may be in vain. keeper_of(kept) is the first one.
local function keeper_of(kept) return string.match(kept, '^[^!<]*') end
