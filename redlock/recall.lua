-- recall.lua answers a release that is sent again as it was answered before. Needs KEYS[2], id.
do
  local answers = redis.pcall('GETRANGE', KEYS[2], 15, -1)
  local at = type(answers) == 'string' and string.find(answers, id, 1, true)
  if at then return string.sub(answers, at - 1, at - 1) == '-' and 0 or 1 end
end
