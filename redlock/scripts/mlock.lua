-- mlock takes several locks that are at one node if all of them are free, otherwise none.
--
-- KEYS  the locks; behind them the fence of each one's slot
-- ARGV  1  token
--       2  lease, ms
--       3  meta, or ""
--       4  replication id of the master that may grant, or ""
--       behind them two for each lock: the id of its request, and its keeper or ""
-- Reply {fence of each lock}: all are granted, with the lease that was asked for and the count 1
--       n: others hold the n-th lock
--       0: they are to be asked for one after the other. One has a queue, or readers, or is the token's own
-- Effects: the holds, as acquire.lua makes them. A copy of a request that has run finds them, and says 0.
local token, lease, meta, master, count = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], #KEYS / 2
local locks, call = {unpack(KEYS, 1, count)}, redis.call
--#include now.lua
--#include fence.lua
--#include master.lua
--#include create.lua
--#include plain.lua
--#include ownhold.lua
local clock = call('TIME')
local now, from = in_ms(clock)

-- held_by_others(key, plain) says that another writer has the lock for certain.
local function held_by_others(key, plain)
  local _, _, plain_owner = read_plain(plain)
  if plain_owner then return plain_owner ~= token end
  local _, own, _, owner, writer, version = own_hold(key, token)
  return version == '1' and writer and owner ~= token and not own
    and tonumber(string.match(writer, '^%d+')) > now
end

if call('EXISTS', unpack(locks)) > 0 then
  for i, plain in ipairs(call('MGET', unpack(locks))) do
    if held_by_others(locks[i], plain) then return i end
  end
  return 0
end
local refused = master ~= '' and other_master(master)
if refused then return refused end
local note, fences, requests = meta == '' and '' or ' ' .. meta, {}, {unpack(ARGV, 5)}
for i = 1, count do
  local fence = next_fence(KEYS[count + i], clock)
  create(locks[i], '1', 'w', token, fence, lease, now, from, requests[2 * i], requests[2 * i - 1], note)
  fences[i] = tonumber(fence)
end
return fences
