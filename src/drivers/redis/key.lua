-- One key as stored: reading it, and writing what a step decided. Variables are of the step under way.
-- Needs call.lua, plain.lua and conflict.lua.

local name, queueName, waitersName
local head, holders, ended

-- Set by a step: what it changes.
local headChanged, left, leftIds, rewritten, entered, news

local function copy(record)
  local new = {}
  for field = 1, AFTER do new[field] = record[field] end
  return new
end

-- The hash tag of the key, with the prefix before it.
local function tag()
  return string.sub(name, 1, tagEnd)
end

-- Lifts all later fences of the key to more than this.
local function raiseFences(floor)
  fenceToCome(call, tag())
  liftFence(call, tag(), floor)
end

local function load(recordName)
  name = recordName
  queueName = nil
  left, leftIds, rewritten, entered, news = {}, {}, {}, false, {}
  local packed = redis.call('GET', name)
  headChanged = false
  if not packed then
    head, holders, ended = { 1, 0, 0, false, {} }, {}, false
    return true
  end
  head = unpackKey(packed)
  if not head then return false end
  holders, ended = head[HOLDERS], head[ENDED]
  if ended and now >= ended[ENDED_UNTIL] then ended = false end
  return true
end

local function nameQueue()
  if not queueName then queueName, waitersName = waiterKeys(name) end
end

-- The waiters in the order of their turn, read a few at a time: a release must not decode a thousand.
local function eachWaiter()
  if head[WAITERS_UNTIL] == 0 then return function() end end
  nameQueue()
  local from, size, at, ids, records = 0, 1, 0, {}, {}
  return function()
    while true do
      at = at + 1
      if at > #ids then
        ids = redis.call('ZRANGE', queueName, from, from + size - 1)
        if #ids == 0 then return nil end
        records = redis.call('HMGET', waitersName, unpack(ids))
        from, size, at = from + #ids, math.min(size * 4, 64), 1
      end
      if records[at] then return cmsgpack.unpack(records[at]) end
    end
  end
end

local function findWaiter(id)
  if head[WAITERS_UNTIL] == 0 then return nil end
  nameQueue()
  local packed = redis.call('HGET', waitersName, id)
  return packed and cmsgpack.unpack(packed)
end

-- How many waiters rank before this record, which may itself not be stored.
local function aheadOf(record)
  if head[WAITERS_UNTIL] == 0 then return 0 end
  nameQueue()
  local place = score(record)
  local ahead = redis.call('ZCOUNT', queueName, '-inf', string.format('(%.0f', place))
  for _, gone in ipairs(left) do
    if score(gone) < place then ahead = ahead - 1 end
  end
  return ahead
end

local function millisecondsUntil(horizon)
  return string.format('%.0f', math.max(1, math.ceil(horizon - now)) + spareMs)
end

-- Nothing of a key may stay for longer than one ttl after its last claim has ended.
local function storeHead()
  local horizon = math.max(head[WAITERS_UNTIL], ended and ended[ENDED_UNTIL] or 0)
  for _, holder in ipairs(holders) do
    horizon = math.max(horizon, holder[EXPIRES_AT] + holder[GRACE] + holder[TTL])
  end
  local plain = #holders == 1 and head[WAITERS_UNTIL] == 0 and not ended and isPlain(holders[1])
  head[ENDED], head[HOLDERS] = ended, holders
  local packed = plain and packPlain(holders[1]) or cmsgpack.pack(head)
  redis.call('SET', name, packed, 'PX', millisecondsUntil(horizon))
end

-- Makes the waiters' keys live for one ttl longer than this waiter, at least.
local function keepWaiters(waiter)
  if waiter[EXPIRES_AT] <= head[WAITERS_UNTIL] then return false end
  head[WAITERS_UNTIL] = waiter[EXPIRES_AT] + waiter[TTL]
  headChanged = true
  return true
end

-- Lua hands a command a few thousand arguments at most.
local function inPieces(command, key, list)
  for from = 1, #list, 1000 do
    redis.call(command, key, unpack(list, from, math.min(from + 999, #list)))
  end
end

local function storeWaiters()
  local fields = {}
  local keep = entered ~= false
  if entered then
    -- What was left behind when the key's record was evicted or deleted by hand is nobody's turn.
    if head[WAITERS_UNTIL] == 0 then redis.call('DEL', queueName, waitersName) end
    head[LAST_ORDER] = entered[ORDER]
    headChanged = true
    rewritten[entered[ID]] = entered
    redis.call('ZADD', queueName, string.format('%.0f', score(entered)), entered[ID])
  end
  for id, waiter in pairs(rewritten) do
    if not leftIds[id] then
      fields[#fields + 1] = id
      fields[#fields + 1] = cmsgpack.pack(waiter)
      keep = keepWaiters(waiter) or keep
    end
  end
  inPieces('HSET', waitersName, fields)
  if keep then
    local rest = millisecondsUntil(head[WAITERS_UNTIL])
    redis.call('PEXPIRE', queueName, rest)
    redis.call('PEXPIRE', waitersName, rest)
  end
end

local function removeWaiters()
  if head[WAITERS_UNTIL] == 0 then
    redis.call('DEL', queueName, waitersName)
    return
  end
  local ids = {}
  for at, waiter in ipairs(left) do ids[at] = waiter[ID] end
  inPieces('ZREM', queueName, ids)
  inPieces('HDEL', waitersName, ids)
end

-- Carries out what a step decided. What a full server refuses comes first: then nothing of the key has changed.
local function store()
  if entered or next(rewritten) then
    nameQueue()
    storeWaiters()
  end
  if head[WAITERS_UNTIL] > 0 and (#left > 0 or #holders == 0) then
    nameQueue()
    if redis.call('ZCARD', queueName) <= #left then
      head[WAITERS_UNTIL] = 0
      headChanged = true
    end
  end
  if headChanged then
    local idle = #holders == 0 and head[WAITERS_UNTIL] == 0
    if idle then head[LAST_ORDER] = 0 end
    if idle and not ended then redis.call('DEL', name) else storeHead() end
  end
  if #left > 0 then removeWaiters() end
end
