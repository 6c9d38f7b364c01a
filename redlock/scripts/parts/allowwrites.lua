-- allow_writes(key) lets the script write to a lock that is a hash even if Redis has reached its maxmemory.
--
-- A Redis that is full refuses commands that may need memory, but only until the script has written
-- something. HDEL needs no memory, so Redis lets it pass, counts it as a write, and then allows the rest.
-- This HDEL removes nothing: no field has an empty name.
local function allow_writes(key) redis.call('HDEL', key, '') end
