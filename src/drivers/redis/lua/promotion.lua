-- Who is let in: the copy in Lua of core/rule/promotion.ts. Needs draft.lua and what that needs.

-- Of a walk there are in `draft` the waiters passed that must go on waiting (blocked), and whether a conversion has
-- left a place for them (onceMore).

-- Beside an exclusive holder of the whole key there is no other, so the first tells.
local function heldAlone()
  local first = draft.holders[1]
  return first ~= nil and not first[SHARED] and not first[RANGE_START]
end

local function successionFor(waiter)
  if not draft.ended or draft.ended[ENDED_TOLD] or draft.ended[ENDED_ID] == waiter[REPLACES] then return false end
  draft.ended[ENDED_TOLD] = true
  return { draft.ended[ENDED_HOW], draft.ended[ENDED_FENCE], draft.ended[ENDED_RUNNER] }
end

-- Makes a waiter, or a newcomer, a holder.
local function grant(waiter)
  local replaced = waiter[REPLACES] and holderCalled(waiter[REPLACES])
  if replaced then removeHolder(replaced) end
  local granted = copy(waiter)
  granted[FENCE] = fenceToCome(call, tag())
  liftFence(call, tag(), granted[FENCE])
  granted[AFTER] = successionFor(waiter)
  granted[ACQUIRED_AT] = now
  -- Promotion does not restart the lease: a waiter that died must not block for longer than it was told.
  if replaced and waiter[WAIT] and replaced[EXPIRES_AT] > waiter[EXPIRES_AT] then
    -- Until its owner hears of this, which may be expired, it trusts the lease that it had.
    granted[EXPIRES_AT], granted[TTL] = replaced[EXPIRES_AT], replaced[TTL]
  end
  granted[EXPIRES_AT] = capByMaxHold(granted[EXPIRES_AT], now, waiter[MAX_HOLD])
  local joined = {}
  for at, holder in ipairs(draft.holders) do joined[at] = holder end
  joined[#joined + 1] = granted
  draft.holders = joined
  draft.headChanged = true
  if draft.subject and draft.subject[ID] == waiter[ID] then
    draft.subject = granted
    return
  end
  removeWaiter(waiter)
  notify(granted, heldLine(granted))
end

local function judgeWaiter(waiter)
  if now >= waiter[EXPIRES_AT] then return 'expired' end
  if waiter[REPLACES] and not holds(waiter[REPLACES]) then return 'expired' end
  for _, ahead in ipairs(draft.blocked) do
    if standsInTheWay(ahead, waiter) then return 'wait' end
  end
  local room = roomFor(waiter, draft.holders)
  return room == 'none' and 'wait' or room == 'mismatch' and 'mismatch' or 'grant'
end

-- Looks at the next in line. True: nobody behind can be let in, so they are not even read.
local function offer(stored)
  local waiter = stored == draft.subject and stored or judge(stored)
  local verdict = judgeWaiter(waiter)
  if verdict == 'grant' then
    grant(waiter)
    draft.onceMore = draft.onceMore or (waiter[REPLACES] and #draft.blocked > 0)
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
  draft.blocked[#draft.blocked + 1] = waiter
  -- Cut once and for all: cut anew at every look, a dead waiter would live until the clock has caught up.
  if waiter ~= stored then draft.rewritten[waiter[ID]] = waiter end
  return holdsUpEverybody(waiter)
end

local function walk()
  if heldAlone() then return end
  local asking = draft.subject and draft.subject[ID]
  local newcomer = draft.subject and draft.subject[FENCE] == 0 and draft.subject
  for stored in eachWaiter() do
    if newcomer and score(newcomer) <= score(stored) then
      if offer(newcomer) then return end
      newcomer = false
    end
    if not draft.leftIds[stored[ID]] and stored[ID] ~= asking and offer(stored) then return end
  end
  if newcomer then offer(newcomer) end
end

-- Walks the queue, the asking claim in its place, and grants what conflicts with no holder and nobody ahead.
local function promote()
  repeat
    draft.onceMore, draft.blocked = false, {}
    walk()
  until not draft.onceMore
end
