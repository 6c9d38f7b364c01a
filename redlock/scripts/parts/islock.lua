-- is_lock(version) says that a hash with that field v is kept by lockproxy: a lock, or a semaphore.
local function is_lock(version) return version == '1' or string.find(version or '', '^permits %d+$') end
