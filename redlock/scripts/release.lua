-- release frees a hold, or counts it down if it was counted up by re-entry. For a keeper it frees the hold
-- whole, however often it was counted up.
--
-- KEYS  1  the lock
--       2  the fence of its slot; left out while the slot moves and the two keys are at different nodes.
--          Without it nobody can be granted the lock, so 2 says offer, and the answer is noted with the lock,
--          which then stays for 20 s even if it is free. It is left out too if that very grant is meant, of
--          which no answer is noted.
-- ARGV  1  token; or the end of the value of a plain lock, behind its fence, which is 52 bytes: the request
--          that was granted the lock, which no other grant has, and the token. Then that very grant is meant,
--          unless somebody has asked for the hold since. Or "", with the fence of the slot as the only key:
--          only the answer is looked for that the request was given before, when it had both keys
--       2  with blanks between them, because each argument costs time: the id of the request, made of the
--          name that its client gave it (ID) if there is one; proxy; PUBLISH or SPUBLISH; what becomes of the
--          lock; and if 3 is a fence that, or else the last fence that the proxy knew this token to have when
--          it made the request, if it knew one. What becomes of the lock is one of
--          grant        the first waiter gets it if it waits at this proxy; otherwise it is offered it
--          offer        the first waiter is offered it
--          tell         there is no queue: all who listen are told that the lock is free
--          tell-others  the same, but this proxy listens too, and need not be told
--       3  which grant is meant: its fence; or the id that the proxy gave the request; or "", or left out,
--          for the id in 2. Or the keeper that the hold must have still; it has a colon
--       4  the name of the fence's key, if KEYS does not have it
-- Reply 1: released
--       0: counted down, still held
--       nil: the token holds nothing here; or for that very grant: it is not there, or has changed; or no
--          answer was given before. For a keeper that is 0
--       -1: the proxy of the request has asked for the hold again since: it needs a new id
--       {1, id, fence, ttl ms}: released, and granted to the waiter id of this proxy
--       {1, keeper} or {1, id, fence, ttl ms, keeper}: released too, and this proxy kept the hold alive
-- Effects: the hold goes, or one count of it; the first waiter is woken or gets the lock. Or the hold rests
--       first, if it was asked for with ATLEAST: see rest.lua. Sent again, it changes nothing and replies the
--       same until 32 more releases in the slot, or, as to who got the lock, until the lock was handed on
--       eight times more. If that very grant is meant it replies nil: see redlock/single/free.go. It never
--       ends a grant that its proxy has asked for since. For a keeper, a hold that another client has asked
--       for since stays, with the next keeper (see keeper.lua) if there is one.
local key, holder = KEYS[1], ARGV[1]

-- Nearly every UNLOCK ends here: the lock is still what it was when it was granted, so nobody waits for it.
if #holder == 52 and redis.pcall('GETRANGE', key, '-52', '-1') == holder then
  return redis.call('DEL', key)
end

local fence_key, request, want, fence_name = KEYS[2], ARGV[2], ARGV[3] or '', ARGV[4] or KEYS[2]
local id, me, publish, after, known_fence = string.match(request, '^(%S+) (%S+) (%S+) (%S+) ?(%d*)$')
local granted, token = string.match(holder, '^ (%+%w+) (.*)$')
token = token or holder
local no_queue, keeper = after == 'tell' or after == 'tell-others', string.match(want, '^.*:.*$')
--#include remember.lua
--#include recall.lua
--#include fence.lua
if holder == '' then return recall(key, id) or false end

-- Nearly every hand-over ends here: the lock has a writer, who was granted it and nothing more, and a queue.
-- The first there is a writer too, without meta, who waits at this proxy. What is written is what pass_on
-- would write, but without most functions and tables: to make them takes longer than the commands.
local version, owner, writer, packed, answered
if after == 'grant' and known_fence ~= '' then
  version, owner, writer, packed, answered = unpack(redis.pcall('HMGET', key, 'v', 'o', 'w', 's', 'u'))
  local expiry, fence = string.match(writer or '', '^(%d+) 1 (%d+) %d+ %- %+[%w,]+$')
  local head, tail, waiters, offered, offer_end, expires =
    string.match(packed or '', '^0 (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) 0$')
  local entry = version == '1' and owner == token and fence == known_fence and head and head - offered >= 0
    and redis.call('HGET', key, 'q:' .. head)
  local next_id, proxy, deadline, lease, keeper, size, next_token =
    string.match(entry or '', '^w (%S+) (%S+) (%d+) (%d+) (%S+) (%d+) (.*)$')
  if proxy == me and #next_token - size == 0 then
    local clock = redis.call('TIME')
    local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
    if expiry - now > 0 and deadline - now > 0 then
      redis.call('HDEL', key, 'q:' .. head, 'i:' .. next_id)
      fence, expiry = next_fence(fence_key, clock), now + 1 + lease
      local longer = expiry - expires > 0
      if longer then expires = waiters == '1' and expiry or expiry + 1000 end
      packed = string.format('0 %d %s %d %s %s %d 0', head + 1, tail, waiters - 1, offered, offer_end,
        expires)
      writer = string.format('%d 1 %s %d %s +%s', expiry, fence, now, keeper, next_id)
      answered = ' ' .. id .. '>' .. next_id .. string.sub(answered or '', 1, 7 * 34)
      redis.call('HSET', key, 's', packed, 'o', next_token, 'w', writer, 'u', answered)
      if longer then redis.call('PEXPIREAT', key, expires) end
      remember(fence_key, ' ', id)
      return {1, next_id, tonumber(fence), tonumber(lease)}
    end
  end
end

local value = not version and redis.call('MGET', key)[1]

-- tell says that the lock is free. Users without the right to PUBSUB get an error from that. Then the others
-- are told in any case.
local function tell()
  local listen = after == 'tell-others' and redis.pcall('PUBSUB', 'NUMSUB', key)
  if not listen or listen.err or listen[2] > 1 then redis.call(publish, key, id) end
end

-- Nearly every UNLOCK of independent masters ends here: the lock is plain, and was asked for once, before
-- this request if by the same proxy (see meant.lua). A request there that its client has not named is never
-- sent twice, so no answer to it is looked for, nor noted.
if no_queue and want == '' and value and #value == 47 + #token
  and string.sub(value, 1, 12) == 'lockproxy 1 ' and string.sub(value, 29, 30) == ' +'
  and string.sub(value, 48) == token and (string.sub(value, 31, 38) ~= string.sub(id, 1, 8)
  or string.sub(value, 39, 46) <= string.sub(id, 9)) then
  redis.call('DEL', key)
  tell()
  return 1
end
if want == '' then want = id end
--#include meant.lua
if value then
  --#include plain.lua
  local plain_fence, plain_ids, plain_owner = read_plain(value)
  if plain_fence and (keeper or granted) then return keeper and 0 or false end
  if plain_fence and (want ~= plain_fence or plain_owner ~= token) then
    local answer = recall(fence_key, id)
    if answer then return answer end
    if plain_owner ~= token or not meant(want, plain_fence, plain_ids) then return false end
  end
  if plain_fence and not fence_key then -- a string has no room for a note
    --#include unfold.lua
    unfold(key, plain_fence, plain_ids, plain_owner)
  elseif plain_fence then
    redis.call('DEL', key)
    remember(fence_key, ' ', id)
    if no_queue then tell() end
    return 1
  end
end
if not version then
  version, owner, writer, packed, answered = unpack(redis.pcall('HMGET', key, 'v', 'o', 'w', 's', 'u'))
end
--#include islock.lua
if not is_lock(version) then
  --#include foreign.lua
  return keeper and 0 or foreign(key) or recall(fence_key, id) or false
end
--#include now.lua
local clock = redis.call('TIME')
local now, from = in_ms(clock)
--#include hold.lua
--#include keeper.lua

local field, hold = 'w', writer
if owner ~= token then field, hold = 'r:' .. token, redis.call('HGET', key, 'r:' .. token) end
local expiry, count, fence, since, kept, ids, note = parse_hold(hold or '')

-- If the hold was granted and nothing more, no copy of this request has run before. Otherwise one may have.
if granted and (ids ~= granted or kept ~= '-') then return false end
if keeper and (not hold or expiry <= now or keeper_of(kept) ~= keeper) then return 0 end
local certain = granted or keeper
  or hold and fence == known_fence and string.find(ids, '^%+[%w,]+$')
if not certain then
  local next_id = answered and string.match(answered, ' ' .. id .. '>([%w,]+)')
  if next_id and writer then -- a copy has handed the lock on
    local expiry, count, fence, _, _, ids = parse_hold(writer)
    if count == 1 and ids == '+' .. next_id and expiry > now then
      return {1, next_id, tonumber(fence), expiry - from}
    end
  end
  local answer = next_id and 1 or recall(fence_key, id)
  if answer then return answer end
end
if not hold or expiry <= now then return false end
if not certain then
  --#include overtaken.lua
  if string.find(ids, id, 1, true) then return 0 end -- a copy has counted it down
  if not meant(want, fence, ids) then return false end
  if not no_queue and overtaken(want, ids) then return -1 end
end
--#include allowwrites.lua
if keeper and string.find(kept, '!', 1, true) then
  allow_writes(key)
  kept = string.gsub(string.match(kept, '<(.*)$') or '-', '^%w+:%w+', '%0!')
  redis.call('HSET', key, field, pack_hold(expiry, count, fence, since, kept, ids, note))
  return 1
end
if count > 1 and not keeper then
  allow_writes(key)
  remember(fence_key, '-', id)
  redis.call('HSET', key, field, pack_hold(expiry, count - 1, fence, since, kept, ids .. '-' .. id, note))
  return 0
end
local own_keeper
for each, proxy in string.gmatch(kept, '((%w+):%w+)') do
  if proxy ~= me and each ~= keeper then
    --#include keeperchannel.lua
    redis.call('PUBLISH', keeper_channel(fence_name, proxy), 'released ' .. each)
  elseif not keeper then
    own_keeper = each
  end
end
if no_queue then redis.call(publish, key, id) end
local notes, rests = not granted and not keeper, string.byte(note) == 9
if not packed and not rests and (fence_key or not notes) then -- no readers, no waiters, no ATLEAST
  redis.call('DEL', key)
  remember(notes and fence_key, ' ', id)
  return own_keeper and {1, own_keeper} or 1
end
--#include state.lua
--#include queue.lua
--#include offer.lua
--#include passon.lua
local lock = load_state({key = key, version = version, fence_key = fence_key, clock = clock, now = now,
  from = from, me = me, publish = publish}, packed, writer)
if field ~= 'w' then
  redis.call('HDEL', key, field)
  reader_left(lock, expiry)
end
local readers_end
if lock.readers > 0 or rests then
  --#include readers.lua
  --#include livereaders.lua
  --#include rest.lua
  rest(lock, field, fence, ids, note)
  readers_end = read_until(lock)
end
local reply = pass_on(lock, readers_end, owner, after ~= 'offer', notes and id, answered)
-- This comes last because a full Redis refuses it unless something was deleted before.
remember(notes and fence_key, ' ', id)
if own_keeper and reply == 1 then return {1, own_keeper} end
if own_keeper then reply[5] = own_keeper end
return reply
