-- The work of one request on a key: the copy in Lua of KeyDraft in core/rule/draft.ts, name by name. What a request decides
-- is written by key-state.lua; its answer is a line that decoding.ts reads. Needs claim-record.lua, conflict.lua,
-- key-state.lua and holders.lua.

-- Besides what key-state.lua has in `draft`: the asking claim (subject), kept out of the store until it is settled; the
-- asking claim as stored (subjectBefore); why it was dropped; and the holders found to be over (expiredHolders).

-- ---- answers

local function heldLine(record)
  -- Rounded down: a holder is never promised more than is left.
  local line = string.format('h %.0f %.0f', record[FENCE], math.floor(record[EXPIRES_AT] - now))
  local after = record[AFTER]
  if not record[LEAVING] and not after then return line end
  local parts = {}
  if record[LEAVING] then parts[1] = '"leaving":"' .. record[LEAVING] .. '"' end
  if after then
    local cause = after[4] and '"cause":"' .. after[4] .. '",' or ''
    local text = string.format('"after":{"how":"%s",%s"fence":%.0f,"runner":', after[1], cause, after[2])
    parts[#parts + 1] = text .. after[3] .. '}'
  end
  return line .. ' {' .. table.concat(parts, ',') .. '}'
end

-- `detail` is JSON.
local function absentLine(reason, detail)
  return detail and 'a ' .. reason .. ' ' .. detail or 'a ' .. reason
end

-- When the first holder in the way is over, or may be evicted as stale.
local function againMs(record, atMost)
  local again = math.min(atMost, firstEnd(record) - now)
  if record[EVICT] == 'stale' then
    for _, holder in ipairs(holdersInTheWay(record)) do
      again = math.min(again, holder[HEARTBEAT] + record[STALE] - now)
    end
  end
  return math.max(1, again)
end

local function claimStatusOf(record)
  if record[FENCE] ~= 0 then return heldLine(record) end
  local ttl = math.floor(record[EXPIRES_AT] - now)
  local ahead = aheadOf(record)
  return string.format('w %d %.0f %.0f', ahead, ttl, ahead > 0 and ttl or againMs(record, ttl))
end

-- ---- what changes

local function notify(record, line)
  draft.notifications[#draft.notifications + 1] = { record[CHANNEL], line .. '\n' .. record[ID] }
end

local function removeWaiter(stored)
  touch(stored, rankOf(stored))
  draft.left[#draft.left + 1] = stored
  draft.leftIds[stored[ID]] = true
end

local function dropSubject(reason)
  if draft.subjectBefore then removeWaiter(draft.subjectBefore) end
  draft.subject = nil
  draft.dropReason = reason
end

local function dropWaiter(stored, reason)
  if stored == draft.subject then return dropSubject(reason) end
  removeWaiter(stored)
  if reason ~= 'expired' then notify(stored, absentLine(reason)) end
end

-- Stores the asking claim as it was decided, and answers with its status.
local function settleSubject()
  if not draft.subject then return absentLine(draft.dropReason or 'unknown') end
  if draft.subject[FENCE] == 0 and not draft.subject[WAIT] then return absentLine('refused') end
  local line = claimStatusOf(draft.subject)
  if draft.subject[FENCE] ~= 0 then
    if draft.subjectBefore then removeWaiter(draft.subjectBefore) end
  elseif not draft.subjectBefore then
    draft.entered = draft.subject
  elseif draft.subject ~= draft.subjectBefore then
    draft.rewritten[draft.subject[ID]] = draft.subject
  end
  return line
end

-- ---- time

local function noteEnd(record, how, cause, detail)
  draft.ended = { record[ID], how, detail or false, record[FENCE], record[RUNNER], now + record[TTL], false, cause or false }
  draft.headChanged = true
end

-- Ends holders whose time is over, and cuts leases that a clock that was set back has stretched.
local function settleHolders()
  if draft.spilled then draft.spilled.mend() end
  for _, stored in ipairs(draft.spilled and draft.spilled.due() or draft.holders) do
    local holder = judge(stored)
    if now >= holder[EXPIRES_AT] + holder[GRACE] then
      draft.expiredHolders[#draft.expiredHolders + 1] = holder
      removeHolder(stored)
    elseif holder ~= stored then
      replaceHolder(stored, holder)
    end
  end
  if #draft.expiredHolders == 0 then return end
  -- If several ended, remember the one that was granted last.
  local last = draft.expiredHolders[1]
  for _, record in ipairs(draft.expiredHolders) do
    if record[FENCE] > last[FENCE] then last = record end
  end
  noteEnd(last, howEnded(last))
end

local function beginDraft()
  draft.subject, draft.subjectBefore, draft.dropReason = nil, nil, nil
  draft.expiredHolders = {}
  settleHolders()
end

-- ---- who is here

local function holds(id)
  local holder = holderById(id)
  return holder ~= nil and now < holder[EXPIRES_AT]
end

local function find(id)
  local holder = holderById(id)
  if holder then return holder end
  local stored = findWaiter(id)
  if not stored then return nil end
  local waiter = judge(stored)
  if now < waiter[EXPIRES_AT] then
    if waiter ~= stored then draft.rewritten[id] = waiter end
    return waiter
  end
  removeWaiter(stored)
  return nil
end

local function expiredHolder(id)
  for _, record in ipairs(draft.expiredHolders) do
    if record[ID] == id then return record end
  end
end

-- Whether this request has found the claim to be over.
local function hasEnded(id)
  return #draft.left > 0 or (draft.ended and draft.ended[ENDED_ID] == id) or expiredHolder(id) ~= nil
end

-- The answer for a claim that is not stored: what is known of its end.
local function absent(id)
  local expired = expiredHolder(id)
  if expired then return absentLine(howEnded(expired)) end
  if draft.left[1] and draft.left[1][ID] == id then return absentLine('expired') end
  if not draft.ended or draft.ended[ENDED_ID] ~= id then return absentLine('unknown') end
  return absentLine(draft.ended[ENDED_HOW], draft.ended[ENDED_DETAIL])
end
