-- Who may hold a key: the copy in Lua of core/admission.ts, step by step and name by name. The model test holds the two
-- equal. Needs record.lua, conflict.lua and key.lua; answers with the lines that wire.ts reads.

-- The asking claim, and the same as it is stored. Kept out of the store until it stands still.
local subject, subjectBefore, dropReason
-- Holders whose time this step found to be over; waiters passed that must go on waiting; a conversion left a place.
local overdue, blocked, moved

-- ---- answers

local function heldLine(record)
  local line = string.format('h %.0f %.0f', record[FENCE], record[EXPIRES_AT] - now)
  local after = record[AFTER]
  if not record[LEAVING] and not after then return line end
  local parts = {}
  if record[LEAVING] then parts[1] = '"leaving":"' .. record[LEAVING] .. '"' end
  if after then
    local text = string.format('"after":{"how":"%s","fence":%.0f,"runner":', after[1], after[2])
    parts[#parts + 1] = text .. after[3] .. '}'
  end
  return line .. ' {' .. table.concat(parts, ',') .. '}'
end

-- `detail` is JSON.
local function absentLine(reason, detail)
  return detail and 'a ' .. reason .. ' ' .. detail or 'a ' .. reason
end

-- When the first of those in the way must be gone, or may be taken for stale.
local function againMs(record, atMost)
  local again = atMost
  for _, holder in ipairs(holders) do
    if overlaps(holder, record) then
      again = math.min(again, holder[EXPIRES_AT] + holder[GRACE] - now)
      if record[EVICT] == 'stale' then
        again = math.min(again, holder[HEARTBEAT] + (record[STALE] or record[TTL]) - now)
      end
    end
  end
  return math.max(1, again)
end

local function standingOf(record)
  if record[FENCE] ~= 0 then return heldLine(record) end
  local ttl = record[EXPIRES_AT] - now
  local ahead = aheadOf(record)
  return string.format('w %d %.0f %.0f', ahead, ttl, ahead > 0 and ttl or againMs(record, ttl))
end

-- ---- the draft

local function tell(record, line)
  news[#news + 1] = { record[CHANNEL], line .. '\n' .. record[ID] }
end

local function removeHolder(record)
  local staying = {}
  for _, holder in ipairs(holders) do
    if holder ~= record then staying[#staying + 1] = holder end
  end
  holders = staying
  headChanged = true
end

local function replaceHolder(record, by)
  local replaced = {}
  for at, holder in ipairs(holders) do replaced[at] = holder == record and by or holder end
  holders = replaced
  headChanged = true
end

local function removeWaiter(stored)
  left[#left + 1] = stored
  leftIds[stored[ID]] = true
end

local function holderCalled(id)
  for _, holder in ipairs(holders) do
    if holder[ID] == id then return holder end
  end
end

local function holds(id)
  local holder = holderCalled(id)
  return holder ~= nil and now < holder[EXPIRES_AT]
end

local function dropSubject(reason)
  if subjectBefore then removeWaiter(subjectBefore) end
  subject = nil
  dropReason = reason
end

local function dropWaiter(stored, reason)
  if stored == subject then return dropSubject(reason) end
  removeWaiter(stored)
  if reason ~= 'expired' then tell(stored, absentLine(reason)) end
end

-- ---- time

local function capByMaxHold(ends, acquiredAt, maxHold)
  return maxHold and math.min(ends, acquiredAt + maxHold) or ends
end

local function howEnded(record)
  local maxHold = record[MAX_HOLD]
  return maxHold and record[EXPIRES_AT] >= record[ACQUIRED_AT] + maxHold and 'max-hold' or 'expired'
end

-- The record as it counts now: one with more than its ttl left (the clock went back) is cut to its ttl.
local function judge(record)
  if record[EXPIRES_AT] - now <= record[TTL] then return record end
  local cut = copy(record)
  cut[ACQUIRED_AT] = math.min(record[ACQUIRED_AT], now)
  cut[HEARTBEAT] = math.min(record[HEARTBEAT], now)
  cut[EXPIRES_AT] = now + record[TTL]
  if record[FENCE] ~= 0 then
    cut[EXPIRES_AT] = capByMaxHold(cut[EXPIRES_AT], cut[ACQUIRED_AT], record[MAX_HOLD])
  end
  return cut
end

local function noteEnd(record, how, detail)
  ended = { record[ID], how, detail or false, record[FENCE], record[RUNNER], now + record[TTL], false }
  headChanged = true
end

-- Ends holders whose time is over and cuts leases that a clock set back would have stretched.
local function settleHolders()
  local staying
  for at, stored in ipairs(holders) do
    local holder = judge(stored)
    local over = now >= holder[EXPIRES_AT] + holder[GRACE]
    if (over or holder ~= stored) and not staying then
      staying = {}
      for before = 1, at - 1 do staying[before] = holders[before] end
    end
    if over then
      overdue[#overdue + 1] = holder
    elseif staying then
      staying[#staying + 1] = holder
    end
  end
  if not staying then return end
  holders = staying
  headChanged = true
  if #overdue == 0 then return end
  -- Of several ends the latest grant is remembered.
  local last = overdue[1]
  for _, record in ipairs(overdue) do
    if record[FENCE] > last[FENCE] then last = record end
  end
  noteEnd(last, howEnded(last))
end

local function overdueCalled(id)
  for _, record in ipairs(overdue) do
    if record[ID] == id then return record end
  end
end

-- ---- letting in

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

local function grant(waiter)
  if waiter[REPLACES] then
    local replaced = holderCalled(waiter[REPLACES])
    if replaced then removeHolder(replaced) end
    moved = #blocked > 0
  end
  local granted = copy(waiter)
  granted[FENCE] = nextFence()
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
    moved = false
    blocked = {}
    walk()
  until not moved
end

-- ---- taking away

-- The fewest eligible holders without whom the claim would fit, lowest priority and oldest first; none if it fits
-- already, or would not fit even without all of them.
local function makeRoom(claim, eligible)
  local candidates, staying, leaving = {}, {}, {}
  for at, holder in ipairs(holders) do
    staying[at] = holder
    if holder[ID] ~= claim[REPLACES] and overlaps(holder, claim) and eligible(holder) then
      candidates[#candidates + 1] = holder
    end
  end
  table.sort(candidates, function(one, other)
    if one[PRIORITY] ~= other[PRIORITY] then return one[PRIORITY] < other[PRIORITY] end
    return one[FENCE] < other[FENCE]
  end)
  for _, candidate in ipairs(candidates) do
    if roomFor(claim, staying) == 'room' then break end
    for at, holder in ipairs(staying) do
      if holder == candidate then
        table.remove(staying, at)
        break
      end
    end
    leaving[#leaving + 1] = candidate
  end
  return roomFor(claim, staying) == 'room' and leaving or {}
end

local function evict(holder, detail)
  removeHolder(holder)
  noteEnd(holder, 'evicted', detail)
  tell(holder, absentLine('evicted', detail))
end

local function askToLeave(holder)
  local leaving = copy(holder)
  leaving[LEAVING] = 'preempted'
  replaceHolder(holder, leaving)
  tell(leaving, heldLine(leaving))
end

-- Applies a claim's own rule to those in its way. True: it now has their place, whoever waits.
local function applyEvictRule(claim)
  local rule = claim[EVICT]
  if not rule then return false end
  if rule == 'lower-priority' then
    local inTheWay = makeRoom(claim, function(holder) return holder[PRIORITY] < claim[PRIORITY] end)
    for _, holder in ipairs(inTheWay) do
      if not holder[LEAVING] then askToLeave(holder) end
    end
    return false
  end
  if rule == 'stale' then
    local silentSince = now - (claim[STALE] or claim[TTL])
    local stale = makeRoom(claim, function(holder) return holder[HEARTBEAT] <= silentSince end)
    for _, holder in ipairs(stale) do evict(holder, '"stale"') end
    return false
  end
  if rule == 'same-runner' then
    local runner = cjson.decode(claim[RUNNER]).id
    local own = makeRoom(claim, function(holder) return cjson.decode(holder[RUNNER]).id == runner end)
    for _, holder in ipairs(own) do evict(holder, '"reclaimed"') end
    return #own > 0
  end
  for _, holder in ipairs(makeRoom(claim, function() return true end)) do evict(holder, '"forced"') end
  return true
end

-- ---- conversions

local function refuseConversion(claim)
  if not holds(claim[REPLACES]) then return absentLine('unknown') end
  for waiter in eachWaiter() do
    -- Conversions stand first, so the first other claim ends the search.
    if not waiter[REPLACES] then return nil end
    local held = now < waiter[EXPIRES_AT] and holderCalled(waiter[REPLACES])
    if held and now < held[EXPIRES_AT] then
      -- Each would wait for the other to give up what it holds, unless this one fits beside all that is held.
      local meet = overlaps(waiter, claim) or overlaps(held, claim)
      if meet and roomFor(claim, holders) ~= 'room' then return absentLine('deadlock') end
    end
  end
end

-- ---- the four requests

local function find(id)
  local holder = holderCalled(id)
  if holder then return holder end
  local stored = findWaiter(id)
  if not stored then return nil end
  local waiter = judge(stored)
  if now < waiter[EXPIRES_AT] then
    if waiter ~= stored then rewritten[id] = waiter end
    return waiter
  end
  removeWaiter(stored)
  return nil
end

-- For a claim that is not there: what is remembered of its end. The queue moves on all the same.
local function answerAbsent(id)
  local remembered = ended
  local expired = left[1] and left[1][ID] == id
  local late = overdueCalled(id)
  promote()
  if late then return absentLine(howEnded(late)) end
  if expired then return absentLine('expired') end
  if not remembered or remembered[ENDED_ID] ~= id then return absentLine('unknown') end
  return absentLine(remembered[ENDED_HOW], remembered[ENDED_DETAIL])
end

-- Lets the queue move on. That may put a holder's own conversion in its place: then it no longer holds.
local function unlessReplaced(id, line)
  promote()
  return string.sub(line, 1, 1) == 'h' and not holds(id) and absentLine('unknown') or line
end

-- Writes down where the asking claim came to stand.
local function settleSubject(mayWait)
  if not subject then return absentLine(dropReason or 'unknown') end
  if subject[FENCE] == 0 then
    if not mayWait then return absentLine('refused') end
    if not subjectBefore then
      local line = standingOf(subject)
      entered = subject
      return line
    end
    if subject ~= subjectBefore then rewritten[subject[ID]] = subject end
  elseif subjectBefore then
    removeWaiter(subjectBefore)
  end
  return standingOf(subject)
end

local function claim(newcomer)
  local known = find(newcomer[ID])
  if known then
    -- A claim sent twice: answer as it stands by now.
    if known[FENCE] ~= 0 then
      local over = now >= known[EXPIRES_AT]
      return unlessReplaced(known[ID], over and absentLine(howEnded(known)) or standingOf(known))
    end
    subjectBefore, subject = known, known
    promote()
    return settleSubject(true)
  end
  -- A late copy of a claim that has ended does not begin it anew.
  local id = newcomer[ID]
  if #left > 0 or (ended and ended[ENDED_ID] == id) or overdueCalled(id) then return answerAbsent(id) end
  local converts = newcomer[REPLACES]
  local refusal = converts and refuseConversion(newcomer)
  if refusal then
    promote()
    return refusal
  end
  subject = newcomer
  local taken = applyEvictRule(newcomer)
  -- A conversion that fits beside the others is granted at once: its owner is in front of every waiter already.
  if taken or (converts and roomFor(newcomer, holders) == 'room') then grant(newcomer) end
  promote()
  return settleSubject(newcomer[WAIT])
end

local function renewHolder(record, ttl, floor, detached, channel)
  -- In its grace a claim is over for its owner and still blocks others.
  if now >= record[EXPIRES_AT] then return absentLine(howEnded(record)) end
  local renewed = copy(record)
  renewed[CHANNEL] = channel
  renewed[FENCE] = math.max(record[FENCE], floor or 0)
  liftFence(renewed[FENCE])
  -- Who was asked to leave keeps what it was promised and gets no more.
  if not record[LEAVING] then
    renewed[TTL] = ttl
    if detached ~= nil then renewed[DETACHED] = detached end
    renewed[HEARTBEAT] = now
    renewed[RENEWALS] = record[RENEWALS] + 1
    renewed[EXPIRES_AT] = capByMaxHold(now + ttl, record[ACQUIRED_AT], record[MAX_HOLD])
  end
  replaceHolder(record, renewed)
  return standingOf(renewed)
end

local function renew(id, ttl, floor, detached, channel)
  local record = find(id)
  if not record then return answerAbsent(id) end
  if record[FENCE] ~= 0 then return unlessReplaced(id, renewHolder(record, ttl, floor, detached, channel)) end
  if floor then liftFence(floor) end
  local renewed = copy(record)
  renewed[CHANNEL] = channel
  renewed[TTL] = ttl
  if detached ~= nil then renewed[DETACHED] = detached end
  renewed[HEARTBEAT] = now
  renewed[RENEWALS] = record[RENEWALS] + 1
  renewed[EXPIRES_AT] = now + ttl
  subjectBefore, subject = record, renewed
  if record[REPLACES] and not holds(record[REPLACES]) then
    dropSubject('expired')
  elseif applyEvictRule(renewed) then
    grant(renewed)
  end
  promote()
  return settleSubject(true)
end

local function release(id)
  local record = find(id)
  if not record then return answerAbsent(id) end
  local over = now >= record[EXPIRES_AT]
  if record[FENCE] ~= 0 then removeHolder(record) else removeWaiter(record) end
  promote()
  return absentLine(over and howEnded(record) or 'released')
end

local function evictFence(fence, reason)
  for _, holder in ipairs(holders) do
    if holder[FENCE] == fence then
      evict(holder, reason)
      promote()
      return absentLine('evicted', reason)
    end
  end
  promote()
  return absentLine('unknown')
end

local function beginStep()
  subject, subjectBefore, dropReason = nil, nil, nil
  overdue, blocked, moved = {}, {}, false
  settleHolders()
end
