-- Who is let in: the copy in Lua of core/admission/promotion.ts. Needs draft.lua and what that needs.

-- Of the walk under way: waiters passed that must go on waiting, and whether a conversion has left a place for them.
local blocked, onceMore

-- Beside an exclusive holder of the whole key there is no other, so the first tells.
local function heldAlone()
  local first = holders[1]
  return first ~= nil and not first[SHARED] and not first[RANGE_START]
end

local function successionFor(waiter)
  if not ended or ended[ENDED_TOLD] or ended[ENDED_ID] == waiter[REPLACES] then return false end
  ended[ENDED_TOLD] = true
  return { ended[ENDED_HOW], ended[ENDED_FENCE], ended[ENDED_RUNNER] }
end

-- Makes a waiter, or a newcomer, a holder.
local function grant(waiter)
  if waiter[REPLACES] then
    local replaced = holderCalled(waiter[REPLACES])
    if replaced then removeHolder(replaced) end
  end
  local granted = copy(waiter)
  granted[FENCE] = fenceToCome(call, tag())
  liftFence(call, tag(), granted[FENCE])
  granted[AFTER] = successionFor(waiter)
  granted[ACQUIRED_AT] = now
  -- Promotion does not restart the lease: a waiter that died must not block for longer than it was told.
  granted[EXPIRES_AT] = capByMaxHold(waiter[EXPIRES_AT], now, waiter[MAX_HOLD])
  local joined = {}
  for at, holder in ipairs(holders) do joined[at] = holder end
  joined[#joined + 1] = granted
  holders = joined
  headChanged = true
  if subject and subject[ID] == waiter[ID] then
    subject = granted
    return
  end
  removeWaiter(waiter)
  tell(granted, heldLine(granted))
end

local function judgeWaiter(waiter)
  if now >= waiter[EXPIRES_AT] then return 'expired' end
  if waiter[REPLACES] and not holds(waiter[REPLACES]) then return 'expired' end
  for _, ahead in ipairs(blocked) do
    if standsInTheWay(ahead, waiter) then return 'wait' end
  end
  local room = roomFor(waiter, holders)
  return room == 'none' and 'wait' or room == 'mismatch' and 'mismatch' or 'grant'
end

-- Looks at the next in line. True: nobody behind can be let in, so they are not even read.
local function offer(stored)
  local waiter = stored == subject and stored or judge(stored)
  local verdict = judgeWaiter(waiter)
  if verdict == 'grant' then
    grant(waiter)
    onceMore = onceMore or (waiter[REPLACES] and #blocked > 0)
    return heldAlone()
  end
  if verdict ~= 'wait' then
    dropWaiter(stored, verdict)
    return false
  end
  if not waiter[WAIT] then
    -- Who would not wait is gone again, and holds up nobody behind.
    dropSubject('refused')
    return false
  end
  blocked[#blocked + 1] = waiter
  -- Cut once and for all: cut anew at every look, a dead waiter would live until the clock has caught up.
  if waiter ~= stored then rewritten[waiter[ID]] = waiter end
  return holdsUpEverybody(waiter)
end

local function walk()
  if heldAlone() then return end
  local asking = subject and subject[ID]
  local newcomer = subject and subject[FENCE] == 0 and subject
  for stored in eachWaiter() do
    if newcomer and score(newcomer) <= score(stored) then
      if offer(newcomer) then return end
      newcomer = false
    end
    if not leftIds[stored[ID]] and stored[ID] ~= asking and offer(stored) then return end
  end
  if newcomer then offer(newcomer) end
end

-- Walks the queue, the asking claim in its place, and grants what conflicts with no holder and nobody ahead.
local function promote()
  repeat
    onceMore, blocked = false, {}
    walk()
  until not onceMore
end
