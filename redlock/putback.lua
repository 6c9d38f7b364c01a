-- putback.lua leaves releases where fence.lua found them: they are of other locks of the slot. Needs released.
if released ~= '' then redis.pcall('SETRANGE', KEYS[2], '16', ' ' .. released) end
