-- Who may hold a key: the copy in Lua of core/rule/admission.ts, step by step and name by name. The model test holds the two
-- equal. The last part of the rule, which is made only when a call needs it: returns `admit`. Needs draft.lua,
-- promotion.lua and what those need.

-- ---- answers

-- In its grace a claim is over for its owner, and still blocks others.
local function overForOwner(record)
  return absentLine(howEnded(record))
end

-- Promotes waiters. If that granted the conversion of this very holder, the claim no longer holds.
local function unlessReplaced(id, line)
  promote()
  return string.sub(line, 1, 1) == 'h' and not holds(id) and absentLine('unknown') or line
end

-- The answer for a claim that is not stored. Waiters are promoted all the same.
local function answerAbsent(id)
  local line = absent(id)
  promote()
  return line
end

-- ---- claim

-- A claim that is sent twice is answered with its status by now.
local function askAgain(known)
  if known[FENCE] ~= 0 then
    local over = now >= known[EXPIRES_AT]
    return unlessReplaced(known[ID], over and overForOwner(known) or claimStatusOf(known))
  end
  draft.subjectBefore, draft.subject = known, known
  promote()
  return settleSubject()
end

-- Refuses a conversion that has no lease to convert, or that would wait for a conversion that waits for it.
local function refuseConversion(claim)
  if not holds(claim[REPLACES]) then return absentLine('unknown') end
  for waiter in waiters() do
    -- Conversions rank first: the first other claim ends the search.
    if not waiter[REPLACES] then return nil end
    local held = now < waiter[EXPIRES_AT] and holderById(waiter[REPLACES])
    if held and now < held[EXPIRES_AT] then
      -- Each would wait for the other's lease, unless this one fits beside all holders.
      local meet = overlaps(waiter, claim) or overlaps(held, claim)
      if meet and roomBeside(claim) ~= 'room' then return absentLine('deadlock') end
    end
  end
end

local function claimPlace(newcomer)
  local known = find(newcomer[ID])
  if known then return askAgain(known) end
  -- A late copy of a claim that has ended does not begin it anew.
  if hasEnded(newcomer[ID]) then return answerAbsent(newcomer[ID]) end
  local converts = newcomer[REPLACES]
  local refusal = converts and refuseConversion(newcomer)
  if refusal then
    promote()
    return refusal
  end
  draft.subject = newcomer
  local taken = applyEvictRule(newcomer)
  -- A conversion that fits beside the other holders is granted at once: its owner ranks before every waiter already.
  if taken or (converts and roomBeside(newcomer) == 'room') then grant(newcomer) end
  promote()
  return settleSubject()
end

-- ---- renew

local function renewHolder(record, ttl, floor, detached)
  if now >= record[EXPIRES_AT] then return overForOwner(record) end
  local renewed = copyRecord(record)
  renewed[CHANNEL] = channel
  renewed[FENCE] = math.max(record[FENCE], floor or 0)
  if floor then raiseFences(renewed[FENCE]) end
  -- A holder that was asked to leave keeps its lease and is not given more.
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

-- Renews a claim whose lease is not over: that claim alone, whoever else holds or waits. Nil: not held, or over.
local function renewAlone(id, ttl, floor, detached)
  local stored = holderById(id)
  local record = stored and judge(stored)
  if not record or now >= record[EXPIRES_AT] then return nil end
  if record ~= stored then replaceHolder(stored, record) end
  return renewHolder(record, ttl, floor, detached)
end

local function renew(id, ttl, floor, detached)
  local record = find(id)
  if not record then return answerAbsent(id) end
  if record[FENCE] ~= 0 then return unlessReplaced(id, renewHolder(record, ttl, floor, detached)) end
  if floor then raiseFences(floor) end
  local renewed = copyRecord(record)
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

-- Ends a waiting claim. A claim that is held by now stays, and is answered as such.
local function withdraw(id)
  local record = find(id)
  if not record then return answerAbsent(id) end
  return record[FENCE] ~= 0 and askAgain(record) or letGo(record)
end

local function evictFence(fence, reason)
  for _, holder in ipairs(draft.spilled and draft.spilled.inOrderOfGrants() or draft.holders) do
    if holder[FENCE] == fence then
      evictHolder(holder, 'operator', reason)
      promote()
      return absentLine('evicted', reason)
    end
  end
  promote()
  return absentLine('unknown')
end

-- ---- one request

local function waiterFor(id, template)
  local ttl = template.ttl
  local record = {
    id, channel, template.runner, ttl, now + ttl, now, 0, now, 0, 0,
    draft.head[LAST_ORDER] + 1, 0, template.op == 'c', false, false, false, false, false, false, false,
    0, false, false, false, false,
  }
  if template.terms ~= '' then
    local terms = cjson.decode(template.terms)
    record[PRIORITY], record[SHARED], record[LIMIT] = terms[1], terms[2], terms[3]
    record[RANGE_START], record[RANGE_END], record[REPLACES] = terms[4], terms[5], terms[6]
    record[EVICT], record[STALE] = terms[7], terms[8]
    record[GRACE], record[MAX_HOLD], record[DETACHED] = terms[9], terms[10], terms[11]
  end
  return record
end

local function renewByTemplate(id, template, how)
  if template.terms == '' then return how(id, template.ttl) end
  local terms = cjson.decode(template.terms)
  local detached = terms[2]
  if detached == cjson.null then detached = nil end
  return how(id, template.ttl, terms[1], detached)
end

-- admit: carries out one request. Answers with its line, and with notifications: pairs of channel and message.
return function(recordName, id, template)
  if not load(recordName) then return 'x foreign', {} end
  local line = template.op == 'r' and renewByTemplate(id, template, renewAlone)
  if not line then beginDraft() end
  if line then
    -- Renewed already.
  elseif template.op == 'd' then
    line = release(id)
  elseif template.op == 'w' then
    line = withdraw(id)
  elseif template.op == 'r' then
    line = renewByTemplate(id, template, renew)
  elseif template.op == 'e' then
    line = evictFence(tonumber(id), template.terms)
  else
    line = claimPlace(waiterFor(id, template))
  end
  apply()
  return line, draft.notifications
end
