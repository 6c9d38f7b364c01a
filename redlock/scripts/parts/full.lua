-- full(lock, others, doing, setting) is what one more is told when so many others are doing the same.
local function full(lock, others, doing, setting)
  return {err = 'QUEUEFULL ' .. others .. ' clients ' .. doing ..
    ' this lock already: try again later, or raise ' .. setting}
end
