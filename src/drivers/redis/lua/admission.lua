-- Who may hold a key: the copy in Lua of core/rule/admission.ts, step by step and name by name. The model test holds the two
-- equal. Needs draft.lua, promotion.lua, eviction.lua and what those need.

-- ---- answers

-- In its grace a claim is over for its owner and still blocks others.
local function overForOwner(record)
  return absentLine(howEnded(record))
end

-- Lets the queue move on. That may put a holder's own conversion in its place: then it no longer holds.
local function unlessReplaced(id, line)
  promote()
  return string.sub(line, 1, 1) == 'h' and not holds(id) and absentLine('unknown') or line
end

-- For a claim that is not there. The queue moves on all the same.
local function answerAbsent(id)
  local line = absent(id)
  promote()
  return line
end

-- ---- claim

-- A claim sent twice: answer as it stands by now.
local function askAgain(known)
  if known[FENCE] ~= 0 then
    local over = now >= known[EXPIRES_AT]
    return unlessReplaced(known[ID], over and overForOwner(known) or claimStatusOf(known))
  end
  draft.subjectBefore, draft.subject = known, known
  promote()
  return settleSubject()
end

-- A conversion needs a lease to convert, and must not wait for another conversion that waits for it.
local function refuseConversion(claim)
  if not holds(claim[REPLACES]) then return absentLine('unknown') end
  for waiter in eachWaiter() do
    -- Conversions stand first, so the first other claim ends the search.
    if not waiter[REPLACES] then return nil end
    local held = now < waiter[EXPIRES_AT] and holderCalled(waiter[REPLACES])
    if held and now < held[EXPIRES_AT] then
      -- Each would wait for the other to give up what it holds, unless this one fits beside all that is held.
      local meet = overlaps(waiter, claim) or overlaps(held, claim)
      if meet and roomFor(claim, draft.holders) ~= 'room' then return absentLine('deadlock') end
    end
  end
end

local function claimPlace(newcomer)
  local known = find(newcomer[ID])
  if known then return askAgain(known) end
  -- A expired copy of a claim that has ended does not begin it anew.
  if hasEnded(newcomer[ID]) then return answerAbsent(newcomer[ID]) end
  local converts = newcomer[REPLACES]
  local refusal = converts and refuseConversion(newcomer)
  if refusal then
    promote()
    return refusal
  end
  draft.subject = newcomer
  local taken = applyEvictRule(newcomer)
  -- A conversion that fits beside the others is granted at once: its owner is in front of every waiter already.
  if taken or (converts and roomFor(newcomer, draft.holders) == 'room') then grant(newcomer) end
  promote()
  return settleSubject()
end

-- ---- renew

local function renewHolder(record, ttl, floor, detached)
  if now >= record[EXPIRES_AT] then return overForOwner(record) end
  local renewed = copy(record)
  renewed[CHANNEL] = channel
  renewed[FENCE] = math.max(record[FENCE], floor or 0)
  if floor then raiseFences(renewed[FENCE]) end
  -- Who was asked to leave keeps what it was promised and gets no more.
  if not record[LEAVING] then
    renewed[TTL] = ttl
    if detached ~= nil then renewed[DETACHED] = detached end
    renewed[HEARTBEAT] = now
    renewed[RENEWALS] = record[RENEWALS] + 1
    renewed[EXPIRES_AT] = capByMaxHold(now + ttl, record[ACQUIRED_AT], record[MAX_HOLD])
  end
  replaceHolder(record, renewed)
  return claimStatusOf(renewed)
end

local function renew(id, ttl, floor, detached)
  local record = find(id)
  if not record then return answerAbsent(id) end
  if record[FENCE] ~= 0 then return unlessReplaced(id, renewHolder(record, ttl, floor, detached)) end
  if floor then raiseFences(floor) end
  local renewed = copy(record)
  renewed[CHANNEL] = channel
  renewed[TTL] = ttl
  if detached ~= nil then renewed[DETACHED] = detached end
  renewed[HEARTBEAT] = now
  renewed[RENEWALS] = record[RENEWALS] + 1
  renewed[EXPIRES_AT] = now + ttl
  draft.subjectBefore, draft.subject = record, renewed
  if record[REPLACES] and not holds(record[REPLACES]) then
    dropSubject('expired')
  elseif applyEvictRule(renewed) then
    grant(renewed)
  end
  promote()
  return settleSubject()
end

-- ---- release, withdraw and evict

local function letGo(record)
  if record[FENCE] ~= 0 then removeHolder(record) else removeWaiter(record) end
  promote()
  return now >= record[EXPIRES_AT] and overForOwner(record) or absentLine('released')
end

local function release(id)
  local record = find(id)
  return record and letGo(record) or answerAbsent(id)
end

-- Leaves the queue, unless it was too expired for that.
local function withdraw(id)
  local record = find(id)
  if not record then return answerAbsent(id) end
  return record[FENCE] ~= 0 and askAgain(record) or letGo(record)
end

local function evictFence(fence, reason)
  for _, holder in ipairs(draft.holders) do
    if holder[FENCE] == fence then
      evict(holder, reason)
      promote()
      return absentLine('evicted', reason)
    end
  end
  promote()
  return absentLine('unknown')
end
