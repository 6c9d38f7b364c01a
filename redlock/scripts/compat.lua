-- compat does all that is done to locks that are kept in the form of another library, so that both exclude
-- each other.
--
-- KEYS  1  the lock: the very key that the library uses
--       2  to take it, the fence of its slot; to renew, more locks of that slot
-- ARGV  1  what is to be done; 2  the name of the key of the slot's fence; behind them for
--       take     3  token; 4  lease, ms; 5  id of the request; 6  keeper, or = and the keeper that the
--                client's connection has for this hold already, or ""; 7  1: only if the token holds the lock
--                already, or 0; 8  1: the hold of others is to end (BREAK), or 0
--       release  3  token, or "" for whoever holds it (BREAK); 4  fence of the grant that is meant, or "";
--                5  id of the request that it was granted to, or ""; 6  keeper that it must have, or "";
--                7  PUBLISH or SPUBLISH; 8  channel that wakes waiters
--       renew    five for each lock: token; lease in ms, 0 leaves it; fence of the grant that is meant, or
--                ""; keeper that asks, as for renew.lua, or ""; keeper that it gets, as for take, or ""
--       look     nothing
-- Reply take     {1, fence, ttl ms}: granted; with a 1 behind it: and the hold of others has ended by this
--                {0, ms}: others hold it, for so many ms; -1: without end
--                {2}: nobody holds it, or BREAK would end the hold of others; and the request is content with
--                a hold that it has
--       release  the keeper, or "" if it had none: released; nil: the token holds nothing here
--       renew    for each lock {left, fence}: ms that remain; 0: the token holds nothing here; -1:
--                another proxy keeps it
--       look     nil: nobody holds it; {text, ms that are left or -1, fence or 0, token or "", keeper or ""}
-- Effects: one hold, however often the request is sent. The same token again gets the same fence, and no
--       lease gets shorter. Waiters are told of a lock that is free, and the proxy that kept a hold alive if
--       another one frees it, ends it or keeps it from now on. With a keeper, release leaves a hold that
--       another client has asked for since, with the next keeper (see keeper.lua) if there is one.
--
-- How such a lock is kept
--
-- A string that SET NX PX has made. A library compares it with a random value of its own.
-- What lockproxy writes there is "lockproxy:fence:token:id:keeper", where token is what OwnerOf makes of the
-- client's token, and keeper is - for none. id is the last request, with a + behind it if the token had asked
-- before: then taking back the request leaves the hold. No library has such a value.
local key, fence_key, what, fence_name, token = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
--#include foreign.lua
--#include keeper.lua
--#include keeperafter.lua
--#include keeperrenews.lua
--#include tellkeepers.lua

-- read(key) is who holds a lock: a table, or nil if nobody does, or nil and an error if the key holds
-- something else. In the table are text, the value; left, the ms of its lease, -1 if it has none; and fence,
-- owner, id and keeper if lockproxy made the hold.
local function read(key)
  local text = redis.call('MGET', key)[1] -- unlike GET it does not fail on other types
  if not text then return nil, foreign(key) end
  local held = {text = text, left = redis.call('PTTL', key)}
  held.fence, held.owner, held.id, held.keeper =
    string.match(text, '^lockproxy:(%d+):(#%x+):(%w+%+?):(%S+)$')
  return held
end

-- write(...) writes a hold. It lasts one ms more, because Redis counts the millisecond that runs as a whole
-- one.
local function write(key, fence, owner, id, keeper, lease)
  redis.call('SET', key, table.concat({'lockproxy', fence, owner, id, keeper}, ':'), 'PX', lease + 1)
end

if what == 'renew' then
  local replies = {}
  for i, key in ipairs(KEYS) do
    local token, lease, fence, had, gets = unpack(ARGV, 5 * i - 2, 5 * i + 2)
    local held, keeper, others = read(key), nil, ''
    local found = held and held.owner == token and (fence == '' or fence == held.fence)
    if found and had ~= '' then
      keeper, others = keeper_renews(held.keeper, had)
    elseif found then
      keeper = keeper_after(held.keeper, gets)
    end
    if not keeper then
      replies[i] = {found and -1 or 0, 0}
    else
      local left = held.left - 1
      if lease ~= '0' then -- also if nothing changes: WAIT counts from the last write of its connection
        tell_keepers(fence_name, 'taken', others)
        left = math.max(left, tonumber(lease))
        write(key, held.fence, token, held.id, keeper, left)
      end
      replies[i] = {left, tonumber(held.fence)}
    end
  end
  return replies
end

local held, refused = read(key)
if refused then return refused end

if what == 'look' then
  return held and {string.sub(held.text, 1, 200), held.left, tonumber(held.fence or '0'),
    held.owner or '', held.keeper or ''}
end

if what == 'release' then
  local fence, id, keeper, publish, channel = unpack(ARGV, 4, 8)
  if not held or token ~= '' and held.owner ~= token or fence ~= '' and fence ~= held.fence
    or id ~= '' and id ~= held.id or keeper ~= '' and keeper_of(held.keeper) ~= keeper then
    return false
  end
  if keeper ~= '' and string.find(held.keeper, '!', 1, true) then
    local kept = string.gsub(string.match(held.keeper, '<(.*)$') or '-', '^%w+:%w+', '%0!')
    write(key, held.fence, token, held.id, kept, math.max(held.left, 1) - 1)
    return false
  end
  redis.call('DEL', key)
  redis.pcall(publish, channel, '0')
  tell_keepers(fence_name, token == '' and 'broken' or 'released', string.sub(held.keeper or '', #keeper + 1))
  return held.keeper and held.keeper ~= '-' and keeper_of(held.keeper) or ''
end

local lease, id, keeper, own, breaks = tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7] == '1', ARGV[8] == '1'
local others, fence = held and held.owner ~= token
if others and not breaks then return {0, held.left} end
if own and (others or not held) then return {2} end
if held and not others then
  fence, keeper = held.fence, keeper_after(held.keeper, keeper)
  if held.id ~= id then id = id .. '+' end
  lease = math.max(lease, held.left - 1)
else
  --#include fence.lua
  fence = next_fence(fence_key, redis.call('TIME'))
  if keeper == '' or string.sub(keeper, 1, 1) == '=' then keeper = '-' end
end
write(key, fence, token, id, keeper, lease)
if not others then return {1, tonumber(fence), lease} end
tell_keepers(fence_name, 'broken', held.keeper or '')
return {1, tonumber(fence), lease, 1}
