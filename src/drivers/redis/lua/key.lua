-- One key as stored: reading it, and writing what a request decided.
-- Needs call.lua, fences.lua, notifications.lua, plain.lua and conflict.lua.

-- Of the request under way: the key's name and record (head), its holders and last end as decided so far, whether
-- those must be written, and what else is to change: waiters that have left (left, leftIds), those to rewrite, the one
-- that has entered; and the notifications for others. One table rather than variables: functions that share many are expensive to
-- make.
local draft = {}

local function copy(record)
  local new = {}
  for field = 1, AFTER do new[field] = record[field] end
  return new
end

-- The hash tag of the key, with the prefix before it.
local function tag()
  return string.sub(draft.name, 1, tagEnd)
end

-- Lifts all later fences of the key to more than this.
local function raiseFences(floor)
  fenceToCome(call, tag())
  liftFence(call, tag(), floor)
end

local function load(recordName)
  draft.name = recordName
  draft.queueName = nil
  draft.left, draft.leftIds, draft.rewritten, draft.entered, draft.notifications = {}, {}, {}, false, {}
  local packed = redis.call('GET', draft.name)
  draft.headChanged = false
  if not packed then
    draft.head, draft.holders, draft.ended = { 2, 0, 0, false, {} }, {}, false
    return true
  end
  local readable, head = pcall(unpackKey, packed)
  if not readable or not head then return false end
  draft.head = head
  draft.holders, draft.ended = draft.head[HOLDERS], draft.head[ENDED]
  if draft.ended and now >= draft.ended[ENDED_UNTIL] then draft.ended = false end
  return true
end

local function nameQueue()
  if draft.queueName then return end
  draft.queueName, draft.waitersName = waiterKeys(draft.name)
  if ON_CLUSTER == 1 and draft.head[WAITERS_UNTIL] > 0 then
    refuseIfHalfMoved(draft.queueName, draft.waitersName)
  end
end

-- A waiter out of its record. One that cannot be read counts as gone: it must not stop the queue.
local function unpackWaiter(packed)
  local readable, waiter = pcall(cmsgpack.unpack, packed)
  return readable and isWaiter(waiter) and waiter or nil
end

-- The waiters in the order of their turn, read a few at a time: a release must not decode a thousand.
local function eachWaiter()
  if draft.head[WAITERS_UNTIL] == 0 then return function() end end
  nameQueue()
  local from, size, at, ids, records = 0, 1, 0, {}, {}
  return function()
    while true do
      at = at + 1
      if at > #ids then
        ids = redis.call('ZRANGE', draft.queueName, from, from + size - 1)
        if #ids == 0 then return nil end
        records = redis.call('HMGET', draft.waitersName, unpack(ids))
        from, size, at = from + #ids, math.min(size * 4, 64), 1
      end
      local waiter = records[at] and unpackWaiter(records[at])
      if waiter then return waiter end
    end
  end
end

local function findWaiter(id)
  if draft.head[WAITERS_UNTIL] == 0 then return nil end
  nameQueue()
  local packed = redis.call('HGET', draft.waitersName, id)
  return packed and unpackWaiter(packed)
end

-- How many waiters rank before this record, which may itself not be stored.
local function aheadOf(record)
  if draft.head[WAITERS_UNTIL] == 0 then return 0 end
  nameQueue()
  local place = score(record)
  local ahead = redis.call('ZCOUNT', draft.queueName, '-inf', string.format('(%.0f', place))
  for _, gone in ipairs(draft.left) do
    if score(gone) < place then ahead = ahead - 1 end
  end
  return ahead
end

local function millisecondsUntil(horizon)
  return string.format('%.0f', math.max(1, math.ceil(horizon - now)) + spareMs)
end

-- Nothing of a key may stay for longer than one ttl after its last claim has ended.
local function storeHead()
  local horizon = math.max(draft.head[WAITERS_UNTIL], draft.ended and draft.ended[ENDED_UNTIL] or 0)
  for _, holder in ipairs(draft.holders) do
    horizon = math.max(horizon, holder[EXPIRES_AT] + holder[GRACE] + holder[TTL])
  end
  local plain = #draft.holders == 1 and draft.head[WAITERS_UNTIL] == 0 and not draft.ended and isPlain(draft.holders[1])
  draft.head[ENDED], draft.head[HOLDERS] = draft.ended, draft.holders
  local packed = plain and packPlain(draft.holders[1]) or cmsgpack.pack(draft.head)
  redis.call('SET', draft.name, packed, 'PX', millisecondsUntil(horizon))
end

-- Makes the waiters' keys live for one ttl longer than this waiter, at least.
local function keepWaiters(waiter)
  if waiter[EXPIRES_AT] <= draft.head[WAITERS_UNTIL] then return false end
  draft.head[WAITERS_UNTIL] = waiter[EXPIRES_AT] + waiter[TTL]
  draft.headChanged = true
  return true
end

-- Lua hands a command a few thousand arguments at most.
local function inPieces(command, key, list)
  for from = 1, #list, 1000 do
    redis.call(command, key, unpack(list, from, math.min(from + 999, #list)))
  end
end

-- One by one: a node that a slot moves to would refuse both at once.
local function deleteWaiters()
  redis.call('DEL', draft.queueName)
  redis.call('DEL', draft.waitersName)
end

local function storeWaiters()
  local fields = {}
  local keep = draft.entered ~= false
  if draft.entered then
    -- What was left behind when the key's record was evicted or deleted by hand is nobody's turn.
    if draft.head[WAITERS_UNTIL] == 0 then deleteWaiters() end
    draft.head[LAST_ORDER] = draft.entered[ORDER]
    draft.headChanged = true
    draft.rewritten[draft.entered[ID]] = draft.entered
    redis.call('ZADD', draft.queueName, string.format('%.0f', score(draft.entered)), draft.entered[ID])
  end
  for id, waiter in pairs(draft.rewritten) do
    if not draft.leftIds[id] then
      fields[#fields + 1] = id
      fields[#fields + 1] = cmsgpack.pack(waiter)
      keep = keepWaiters(waiter) or keep
    end
  end
  inPieces('HSET', draft.waitersName, fields)
  if keep then
    local rest = millisecondsUntil(draft.head[WAITERS_UNTIL])
    redis.call('PEXPIRE', draft.queueName, rest)
    redis.call('PEXPIRE', draft.waitersName, rest)
  end
end

local function removeWaiters()
  if draft.head[WAITERS_UNTIL] == 0 then return deleteWaiters() end
  local ids = {}
  for at, waiter in ipairs(draft.left) do ids[at] = waiter[ID] end
  inPieces('ZREM', draft.queueName, ids)
  inPieces('HDEL', draft.waitersName, ids)
end

-- Carries out what a step decided. What a full server refuses comes first: then nothing of the key has changed.
local function store()
  if draft.entered or next(draft.rewritten) then
    nameQueue()
    storeWaiters()
  end
  if draft.head[WAITERS_UNTIL] > 0 and (#draft.left > 0 or #draft.holders == 0) then
    nameQueue()
    if redis.call('ZCARD', draft.queueName) <= #draft.left then
      draft.head[WAITERS_UNTIL] = 0
      draft.headChanged = true
    end
  end
  if draft.headChanged then
    local idle = #draft.holders == 0 and draft.head[WAITERS_UNTIL] == 0
    if idle then draft.head[LAST_ORDER] = 0 end
    if idle and not draft.ended then redis.call('DEL', draft.name) else storeHead() end
  end
  if #draft.left > 0 then removeWaiters() end
end
