-- note_after(old, new) is the note of a hold (see noteof.lua) once a request with a note has come. The time
-- until which it goes on at least never gets earlier.
local function note_after(old, new)
  local least, meta = string.match(old, '^(\t?%d*)(.*)$')
  local new_least, new_meta = string.match(new, '^(\t?%d*)(.*)$')
  if new_least > least then least = new_least end -- as texts of 14 bytes
  return least .. (new_meta == '' and meta or new_meta)
end
