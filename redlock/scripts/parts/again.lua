-- again(hold, reads, mode, id, reentrant, relying, note, least) is what a request of its own token makes of a hold,
-- as parse_hold says it, with a lease until least at the earliest; then, whether the request was sent before, and
-- whether a reader, if reads says that it is one, becomes the writer by it. relying is as in rely.
local function again(hold, reads, mode, id, reentrant, relying, note, least)
  local e, n, f, since, kept, ids, noted = parse_hold(hold)
  local name, sent_before, upgrade = string.match(id, ',%w+'), string.find(ids, id, 1, true), false
  if not sent_before and name and string.find(ids, name, 1, true) then -- by its client, as another request
    sent_before = true
    ids, kept = ids .. '=' .. id, rely(kept, relying)
  elseif not sent_before then
    upgrade = reads and mode == 'w'
    if reentrant then n = n + 1 end
    ids = ids .. (upgrade and (reentrant and '*' or '^') or reentrant and '+' or '=') .. id
    kept = rely(kept, relying)
    if note ~= '' then noted = note end
  end
  return math.max(e, least), n, f, since, kept, ids, noted, sent_before, upgrade
end
