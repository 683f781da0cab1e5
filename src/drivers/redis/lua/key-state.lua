-- One key as stored: reading it (KeyView), and writing what a request decided (KeyState.apply). The copy in Lua of
-- core/rule/key-state.ts over Redis. Needs call.lua, fence.lua, notifications.lua, claim-record.lua and plain.lua. Holders
-- that are many are in keys of their own: spilled.lua.

-- The draft of the request under way. Here: the key's name and record (head), its holders and last end as decided so far,
-- whether those must be written (headChanged); the holders in keys of their own, if they are many (spilled, and not in
-- `holders` then), and whether such keys are left over (leftOver); waiters that have left (left, leftIds), waiters to rewrite, the waiter that
-- has entered; notifications; and where something has changed (touched). Whether the waiters have an index, which is opened with
-- the queue (isIndexed, index), must have one (isCrowded), or have keys of one that is given up (hasOldIndex). One table rather than variables: a closure over many is expensive to make.
local draft = {}

-- How many waiters are read at a time: growing from one, as most walks end at the first.
local READ_GROWTH, READ_MAX = 4, 64
-- The most arguments that one command is handed: Lua's `unpack` takes a few thousand.
local ARGUMENTS_MAX = 1000

-- The hash tag of the key, with the prefix before it.
local function tag()
  return string.sub(draft.name, 1, tagEnd)
end

-- Lifts all later fences of the key above this floor.
local function raiseFences(floor)
  nextFence(call, tag())
  liftFence(call, tag(), floor)
end

-- The holders of a key that has many, and how they get there: made by spilled.lua and holders.lua.
local spilledHolders, spill
-- What opens and makes an index of the waiters of a key that has many, and walks by it: waiter-index.lua and local-walk.lua, of which
-- the functions are created only when a call needs them.
local createIndexing
local function indexing()
  draft.indexing = draft.indexing or createIndexing()
  return draft.indexing
end

local function load(recordName)
  draft.name = recordName
  draft.queueName, draft.spilled, draft.leftOver = nil, nil, false
  draft.left, draft.leftIds, draft.rewritten, draft.entered, draft.notifications = {}, {}, {}, false, {}
  draft.touched, draft.places, draft.everywhere, draft.asking = {}, nil, nil, nil
  draft.isIndexed, draft.index, draft.isCrowded, draft.isIndexDamaged, draft.hasOldIndex = false, nil, false, false, false
  local packed = redis.call('GET', draft.name)
  draft.headChanged = false
  if not packed then
    draft.head, draft.holders, draft.ended = { FORMAT_VERSION, 0, 0, false, {} }, {}, false
    return true
  end
  local readable, head, isIndexed = pcall(unpackKey, packed)
  if not readable or not head then return false end
  draft.head = head
  if isIndexed then draft.isIndexed, draft.places = true, {} end
  draft.holders, draft.ended = draft.head[HOLDERS], draft.head[ENDED]
  -- Written at once: if the clock is set back, a forgotten end must not come back.
  if draft.ended and now >= draft.ended[ENDED_UNTIL] then draft.ended, draft.headChanged = false, true end
  if head[TALLIES] then draft.spilled = spilledHolders() elseif #draft.holders > PACKED_MAX then spill() end
  return true
end

local function nameQueue()
  if draft.queueName then return end
  draft.queueName, draft.waitersName = waiterKeys(draft.name)
  if draft.isIndexed then return indexing().open() end
  if ON_CLUSTER == 1 and draft.head[WAITERS_UNTIL] > 0 then
    refuseIfMigrating(draft.queueName, draft.waitersName)
  end
end

-- Goes on without the index. Its keys are deleted once the record says so.
local function dropIndex()
  if not draft.isIndexed then return end
  draft.isIndexed, draft.index, draft.hasOldIndex, draft.headChanged = false, nil, true, true
end

-- A waiter out of its packed record. An unreadable waiter counts as gone: it must not stop the queue.
local function unpackWaiter(packed)
  local readable, waiter = pcall(cmsgpack.unpack, packed)
  return readable and isWaiter(waiter) and waiter or nil
end

-- KeyView.waiters: in the order of their rank, read a few at a time, as a release must not decode a thousand.
local function waiters()
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
        from, size, at = from + #ids, math.min(size * READ_GROWTH, READ_MAX), 1
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

-- KeyView.ahead: how many waiters rank before this record, which may itself not be stored.
local function aheadOf(record)
  if draft.head[WAITERS_UNTIL] == 0 then return 0 end
  nameQueue()
  local rank = rankOf(record)
  local ahead = redis.call('ZCOUNT', draft.queueName, '-inf', string.format('(%.0f', rank))
  for _, gone in ipairs(draft.left) do
    if rankOf(gone) < rank then ahead = ahead - 1 end
  end
  return ahead
end

local function millisecondsUntil(horizon)
  return string.format('%.0f', math.max(1, math.ceil(horizon - now)) + spareMs)
end

local function packHead()
  local head = draft.head
  if not draft.isIndexed then return cmsgpack.pack(head) end
  return cmsgpack.pack({
    INDEXED_VERSION, head[LAST_ORDER], head[WAITERS_UNTIL], head[ENDED], head[HOLDERS],
    head[HOLDERS_UNTIL] or 0, head[LAST_GRANT] or 0, head[TALLIES] or false, true,
  })
end

-- Redis drops a key one ttl after its last claim has ended.
local function storeHead()
  local horizon = math.max(draft.head[WAITERS_UNTIL], draft.ended and draft.ended[ENDED_UNTIL] or 0)
  if draft.spilled then
    draft.head[ENDED] = draft.ended
    horizon = math.max(horizon, draft.head[HOLDERS_UNTIL])
    redis.call('SET', draft.name, packHead(), 'PX', millisecondsUntil(horizon))
    return
  end
  for _, holder in ipairs(draft.holders) do
    horizon = math.max(horizon, holder[EXPIRES_AT] + holder[GRACE] + holder[TTL])
  end
  local plain = #draft.holders == 1 and draft.head[WAITERS_UNTIL] == 0 and not draft.ended and isPlain(draft.holders[1])
  draft.head[ENDED], draft.head[HOLDERS] = draft.ended, draft.holders
  local packed = plain and packPlain(draft.holders[1]) or packHead()
  redis.call('SET', draft.name, packed, 'PX', millisecondsUntil(horizon))
end

-- Keeps the waiters' keys for at least one ttl longer than this waiter.
local function keepWaiters(waiter)
  if waiter[EXPIRES_AT] <= draft.head[WAITERS_UNTIL] then return false end
  draft.head[WAITERS_UNTIL] = waiter[EXPIRES_AT] + waiter[TTL]
  draft.headChanged = true
  return true
end

local function inPieces(command, key, list)
  for from = 1, #list, ARGUMENTS_MAX do
    redis.call(command, key, unpack(list, from, math.min(from + ARGUMENTS_MAX - 1, #list)))
  end
end

-- One by one: while a slot migrates, Redis would refuse both at once.
local function deleteWaiters()
  redis.call('DEL', draft.queueName)
  redis.call('DEL', draft.waitersName)
end

-- One by one, for the same reason. Not all of them need exist, and while a slot migrates Redis refuses even to delete what
-- is not there: that must not end a request whose other changes are written.
local function deleteHolderKeys()
  for _, name in ipairs({ holderKeys(draft.name) }) do redis.pcall('DEL', name) end
end

local function storeWaiters()
  local fields = {}
  local keep = draft.entered ~= false
  if draft.entered then
    -- If the key's record was evicted by Redis or deleted by hand, drop the waiters it left behind.
    if draft.head[WAITERS_UNTIL] == 0 then deleteWaiters() end
    draft.head[LAST_ORDER] = draft.entered[ORDER]
    draft.headChanged = true
    draft.rewritten[draft.entered[ID]] = draft.entered
    redis.call('ZADD', draft.queueName, string.format('%.0f', rankOf(draft.entered)), draft.entered[ID])
  end
  for id, waiter in pairs(draft.rewritten) do
    if not draft.leftIds[id] then
      fields[#fields + 1] = id
      fields[#fields + 1] = cmsgpack.pack(waiter)
      keep = keepWaiters(waiter) or keep
    end
  end
  inPieces('HSET', draft.waitersName, fields)
  if draft.index then draft.index.store(draft.entered, draft.rewritten) end
  if keep then
    local rest = millisecondsUntil(draft.head[WAITERS_UNTIL])
    redis.call('PEXPIRE', draft.queueName, rest)
    redis.call('PEXPIRE', draft.waitersName, rest)
    if draft.index then draft.index.keep() end
  end
end

local function removeWaiters()
  if draft.head[WAITERS_UNTIL] == 0 then return deleteWaiters() end
  local ids = {}
  for at, waiter in ipairs(draft.left) do ids[at] = waiter[ID] end
  inPieces('ZREM', draft.queueName, ids)
  inPieces('HDEL', draft.waitersName, ids)
  if draft.index then draft.index.remove(draft.left, ids) end
end

-- KeyState.apply: carries out what the request decided. The writes that a full server refuses come first: if one fails,
-- nothing of the key has changed.
local function apply()
  -- While a slot migrates Redis refuses a key that is new, and then nothing must have been written.
  if ON_CLUSTER == 1 and draft.spilled and draft.spilled.makesKeys() then refuseIfMigrating(draft.name, tag() .. 'none') end
  if draft.entered or next(draft.rewritten) then
    nameQueue()
    storeWaiters()
  end
  if draft.spilled then draft.spilled.packOrStore() end
  local held = draft.spilled ~= nil or #draft.holders > 0
  if draft.head[WAITERS_UNTIL] > 0 and (#draft.left > 0 or not held) then
    nameQueue()
    local count = redis.call('ZCARD', draft.queueName) - #draft.left
    if count <= 0 then
      draft.head[WAITERS_UNTIL] = 0
      draft.headChanged = true
    end
    if count <= WALKED_AGAIN then dropIndex() end
  end
  if draft.head[WAITERS_UNTIL] > 0 and not draft.hasOldIndex and draft.isIndexed == draft.isIndexDamaged
    and (draft.isCrowded or draft.isIndexDamaged) then indexing().make() end
  if draft.headChanged then
    local idle = not held and draft.head[WAITERS_UNTIL] == 0
    if idle then draft.head[LAST_ORDER] = 0 end
    if idle and not draft.ended then redis.call('DEL', draft.name) else storeHead() end
  end
  if draft.spilled then draft.spilled.removeGone() elseif draft.leftOver then deleteHolderKeys() end
  if #draft.left > 0 then removeWaiters() end
  if not draft.hasOldIndex then return end
  for _, name in ipairs({ indexKeys(draft.name) }) do redis.pcall('DEL', name) end
end
