-- guard runs one command of Redis while a hold goes on: nothing comes between the look and the command.
--
-- KEYS  1  the lock; behind it the keys of the command
-- ARGV  1  token; or "", and the hold is the one with the fence
--       2  fence of the grant that is meant; or ""
--       3  database of the command
--       4  the command; behind it its arguments. EVALSHA has the source there, as EVAL
-- Reply that of the command
--       error NOTHELD: the command has not run
-- Effects: those of the command
local key, token, wanted, database = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local command, source, given_numkeys = ARGV[4], ARGV[5], ARGV[6]
--#include plain.lua
--#include now.lua
--#include hold.lua
--#include ownhold.lua
--#include readers.lua
--#include islock.lua
if database ~= '0' then redis.call('SELECT', '0') end
local plain_fence, plain_ids, plain_owner = read_plain(redis.call('MGET', key)[1])
local now, held = in_ms(redis.call('TIME')), plain_owner and (plain_owner == token or plain_fence == wanted)

-- goes_on(hold) says that it is the hold that is meant, and that its lease is not over.
local function goes_on(hold)
  if not hold then return false end
  local expiry, count, fence = parse_hold(hold)
  return expiry > now and (wanted == '' or fence == wanted)
end

if not plain_fence then
  local field, own, packed, owner, writer, version = own_hold(key, token)
  --#include foreign.lua
  local refused = not is_lock(version) and foreign(key)
  if refused then return refused end
  held = goes_on(own) or wanted ~= '' and goes_on(writer)
  if not held and packed and wanted ~= '' then
    for fields, holds in reader_holds(key) do
      for _, hold in ipairs(holds) do held = held or goes_on(hold) end
    end
  end
end
if not held then
  return {err = 'NOTHELD the ' .. (wanted == '' and 'token' or 'grant with that fence') ..
    ' does not hold the lock, and the command has not run: take the lock again'}
end

-- run_script() does what Redis does with an EVAL. No script may call it, but may run its source. In a
-- transaction it is the client's user who must be allowed it.
local function run_script()
  if redis.acl_check_cmd and not redis.acl_check_cmd(unpack(ARGV, 4)) then
    return {err = 'NOPERM this user has no permissions to run this script'}
  end
  local run, wrong = loadstring('local KEYS, ARGV = ... ' .. source, '@user_script')
  if not run then return {err = 'ERR Error compiling script (new function): ' .. wrong} end
  if not string.find(given_numkeys, '^%-?%d+$') then
    return {err = 'ERR value is not an integer or out of range'}
  end
  local numkeys = tonumber(given_numkeys)
  if numkeys < 0 then return {err = "ERR Number of keys can't be negative"} end
  if numkeys > #ARGV - 6 then return {err = "ERR Number of keys can't be greater than number of args"} end
  local ok, said = pcall(run, {unpack(ARGV, 7, 6 + numkeys)}, {unpack(ARGV, 7 + numkeys)})
  if ok or type(said) == 'table' and said.err then return said end
  said = tostring(said) -- Redis makes a text of the error of a command, which has its own first word
  local whole = string.find(said, '^%u+ ') or string.find(said, '^@user_script: ?%d+: ')
  return {err = whole and said or 'ERR ' .. said}
end

local reply = database == '0' and {} or redis.pcall('SELECT', database)
if not reply.err and (command == 'EVAL' or command == 'EVALSHA') then
  reply = run_script()
elseif not reply.err then
  reply = redis.pcall(unpack(ARGV, 4))
end
local said = type(reply) == 'table' and reply.err
if not said then return reply end
-- Before Redis 7.0 some errors begin with the place in the script, and have no word for programs.
local text, placed = string.gsub(said, '^@user_script: ?%d+: %-?(.-)%s*$', '%1')
return {err = placed > 0 and not string.find(text, '^%u+ ') and 'ERR ' .. text or text}
