-- note_of(said, from) is the note of a hold: what stands behind its requests. said is what the request says:
-- the meta; or a tab, for how many ms the hold is to go on at least (ATLEAST), a blank, and the meta. The
-- note is a tab and the time until which it goes on at least, if there is one; then a blank and the meta, if
-- there is one; so "" for "".
local function note_of(said, from)
  local least, meta = string.match(said, '^\t(%d+) (.*)$')
  if not meta then return said == '' and '' or ' ' .. said end
  return (least == '0' and '' or string.format('\t%d', from + least)) .. (meta == '' and '' or ' ' .. meta)
end
