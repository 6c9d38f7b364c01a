-- full(lock, others, doing, setting) is the error for one client too many: so many others do the same
-- already.
local function full(lock, others, doing, setting)
  return {err = 'QUEUEFULL ' .. others .. ' clients ' .. doing ..
    ' this lock already: try again later, or raise ' .. setting}
end
