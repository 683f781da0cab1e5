-- Which waiters are granted, and which holders are evicted: the copy in Lua of core/rule/promotion.ts, name by name. Needs
-- draft.lua and what that needs.

-- The fields of Walk are in `draft`: the waiters passed that must go on waiting (blocked, nil if there is none), whether a
-- granted conversion has left a place for them (onceMore), and whether a waiter that was not visited holds up a claim
-- (isHeldUpUnseen, for a walk that does not visit all).

-- An exclusive holder of the whole key is the only holder, so looking at the first is enough.
local function heldAlone()
  if draft.spilled then return draft.spilled.heldAlone() end
  local first = draft.holders[1]
  return first ~= nil and not first[SHARED] and not first[RANGE_START]
end

local function successionFor(waiter)
  if not draft.ended or draft.ended[ENDED_TOLD] or draft.ended[ENDED_ID] == waiter[REPLACES] then return false end
  draft.ended[ENDED_TOLD] = true
  return { draft.ended[ENDED_HOW], draft.ended[ENDED_FENCE], draft.ended[ENDED_RUNNER], draft.ended[ENDED_CAUSE] or false }
end

-- Makes a waiter, or a newcomer, a holder.
local function grant(waiter)
  local replaced = waiter[REPLACES] and holderById(waiter[REPLACES])
  if replaced then removeHolder(replaced) end
  local granted = copyRecord(waiter)
  granted[FENCE] = nextFence(call, tag())
  liftFence(call, tag(), granted[FENCE])
  granted[AFTER] = successionFor(waiter)
  granted[ACQUIRED_AT] = now
  -- Promotion does not restart the lease: a waiter that died must not block for longer than its ttl.
  if replaced and waiter[WAIT] and replaced[EXPIRES_AT] > waiter[EXPIRES_AT] then
    -- Until its owner hears of the grant, it trusts the lease that it had.
    granted[EXPIRES_AT], granted[TTL] = replaced[EXPIRES_AT], replaced[TTL]
  end
  granted[EXPIRES_AT] = capByMaxHold(granted[EXPIRES_AT], now, waiter[MAX_HOLD])
  joinHolder(granted)
  if draft.subject and draft.subject[ID] == waiter[ID] then
    draft.subject = granted
    return
  end
  removeWaiter(waiter)
  notify(granted, heldLine(granted))
end

-- Adds a waiter to those that must go on waiting. Of a range, only the union is kept: to compare each waiter with each would
-- take the square of their number. Of the whole key, only claims that are not firm: behind others the walk ends.
local function block(waiter)
  local blocked = draft.blocked or { all = newCover(), firm = newCover(), whole = false, count = 0 }
  draft.blocked = blocked
  blocked.count = blocked.count + 1
  if blocked.count > WALKED_MAX then draft.isCrowded = true end
  if not waiter[RANGE_START] then
    blocked.whole = true
    return
  end
  addToCover(blocked.all, waiter)
  if isFirm(waiter) then addToCover(blocked.firm, waiter) end
end

-- standsInTheWay for any waiter that must go on waiting.
local function isHeldUp(waiter)
  local blocked, firm = draft.blocked, isFirm(waiter)
  if blocked then
    if firm and blocked.whole then return true end
    local cover = firm and blocked.all or blocked.firm
    if cover.starts[1] and (not waiter[RANGE_START] or isCovered(cover, waiter)) then return true end
  end
  return draft.isHeldUpUnseen ~= nil and draft.isHeldUpUnseen(waiter)
end

local function judgeWaiter(waiter)
  if now >= waiter[EXPIRES_AT] then return 'expired' end
  if waiter[REPLACES] and not holds(waiter[REPLACES]) then return 'expired' end
  if not mayMove(waiter) or isHeldUp(waiter) then return 'wait' end
  local room = roomBeside(waiter)
  return room == 'none' and 'wait' or room == 'mismatch' and 'mismatch' or 'grant'
end

-- Decides about the next waiter. True: no waiter behind it can be granted, so they are not even read.
local function offer(stored)
  local waiter = stored == draft.subject and stored or judge(stored)
  local decision = judgeWaiter(waiter)
  if decision == 'grant' then
    grant(waiter)
    draft.onceMore = draft.onceMore or (waiter[REPLACES] and draft.blocked ~= nil)
    return heldAlone()
  end
  if decision ~= 'wait' then
    dropWaiter(stored, decision)
    return false
  end
  if not waiter[WAIT] then
    -- A claim that does not wait leaves at once, and blocks no waiter behind it.
    dropSubject('refused')
    return false
  end
  block(waiter)
  -- Store the cut: cut anew at every reading, a dead waiter would live until the clock has caught up.
  if waiter ~= stored then draft.rewritten[waiter[ID]] = waiter end
  return holdsUpEverybody(waiter)
end

local function walk()
  if heldAlone() then return end
  -- Opens the index, if there is one that can be used.
  if draft.isIndexed then nameQueue() end
  if draft.isIndexed then return indexing().walk() end
  local asking = draft.subject and draft.subject[ID]
  local newcomer = draft.subject and draft.subject[FENCE] == 0 and draft.subject
  for stored in waiters() do
    if newcomer and rankOf(newcomer) <= rankOf(stored) then
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
    draft.onceMore, draft.blocked, draft.isHeldUpUnseen = false, nil, nil
    walk()
  until not draft.onceMore
end

-- ---- eviction

-- The fewest eligible holders without whom the claim would fit, lowest priority and oldest first. None if the claim fits
-- already, or would not fit even without all of them.
local function makeRoom(claim, eligible)
  local candidates, leaving = {}, {}
  -- How many that stay exclude the claim, share by another limit, and share at all: what roomFor asks for.
  local excluding, mismatched, sharing = 0, 0, 0
  local function count(holder, by)
    if not (holder[SHARED] and claim[SHARED]) then excluding = excluding + by end
    if holder[LIMIT] ~= claim[LIMIT] then mismatched = mismatched + by end
    sharing = sharing + by
  end
  local function fits()
    return excluding == 0 and mismatched == 0 and not (claim[LIMIT] and sharing >= claim[LIMIT])
  end
  for _, holder in ipairs(holdersInTheWay(claim)) do
    if holder[ID] ~= claim[REPLACES] then
      count(holder, 1)
      if eligible(holder) then candidates[#candidates + 1] = holder end
    end
  end
  table.sort(candidates, function(holder, otherHolder)
    if holder[PRIORITY] ~= otherHolder[PRIORITY] then return holder[PRIORITY] < otherHolder[PRIORITY] end
    return holder[FENCE] < otherHolder[FENCE]
  end)
  for _, candidate in ipairs(candidates) do
    if fits() then break end
    count(candidate, -1)
    leaving[#leaving + 1] = candidate
  end
  return fits() and leaving or {}
end

-- `detail` is JSON.
local function evictHolder(holder, cause, detail)
  removeHolder(holder)
  noteEnd(holder, 'evicted', cause, detail)
  notify(holder, absentLine('evicted', detail))
end

local function evictAll(leaving, cause)
  for _, holder in ipairs(leaving) do evictHolder(holder, cause, '"' .. cause .. '"') end
end

-- Stops a holder's renewals, unless its lease is over already.
local function askToLeave(holder)
  if holder[LEAVING] or now >= holder[EXPIRES_AT] then return end
  local leaving = copyRecord(holder)
  leaving[LEAVING] = 'preempted'
  replaceHolder(holder, leaving)
  notify(leaving, heldLine(leaving))
end

-- The id of a runner, as JSON: the first text of the list that short-runner.ts writes. cjson may not be able to read the
-- rest, which is the caller's.
local function runnerId(text)
  local at = 3
  while true do
    local found = string.find(text, '["\\]', at)
    if string.sub(text, found, found) == '"' then return string.sub(text, 2, found) end
    at = found + 2
  end
end

-- Applies a claim's evict rule to the holders in its way. True: the claim takes their place, ahead of all waiters.
local function applyEvictRule(claim)
  local rule = claim[EVICT]
  if not rule then return false end
  if rule == 'lower-priority' then
    local inTheWay = makeRoom(claim, function(holder) return holder[PRIORITY] < claim[PRIORITY] end)
    for _, holder in ipairs(inTheWay) do askToLeave(holder) end
    return false
  end
  if rule == 'stale' then
    local silentSince = now - claim[STALE]
    evictAll(makeRoom(claim, function(holder) return holder[HEARTBEAT] <= silentSince end), 'stale')
    return false
  end
  if rule == 'same-runner' then
    local runner = runnerId(claim[RUNNER])
    local own = makeRoom(claim, function(holder) return runnerId(holder[RUNNER]) == runner end)
    evictAll(own, 'reclaimed')
    return #own > 0
  end
  evictAll(makeRoom(claim, function() return true end), 'forced')
  return true
end
