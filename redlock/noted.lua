-- noted.lua makes the field u of a hash, as passon.lua has it, of releases that a plain lock or the key of a fence
-- remembers. Needs released, "id~id" or "".
local noted = released ~= '' and {'u', ' ' .. string.gsub(released, '~', '> ') .. '>'} or {}
