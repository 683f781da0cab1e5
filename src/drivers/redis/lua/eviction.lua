-- Who is turned out: the copy in Lua of core/rule/promotion.ts. Needs draft.lua and what that needs.

-- The fewest eligible holders without whom the claim would fit, lowest priority and oldest first; none if it fits
-- already, or would not fit even without all of them.
local function makeRoom(claim, eligible)
  local candidates, staying, leaving = {}, {}, {}
  for at, holder in ipairs(draft.holders) do
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
  notify(holder, absentLine('evicted', detail))
end

local function evictAll(leaving, detail)
  for _, holder in ipairs(leaving) do evict(holder, detail) end
end

-- Stops a holder's renewals. One whose lease is over already needs no asking.
local function askToLeave(holder)
  if holder[LEAVING] or now >= holder[EXPIRES_AT] then return end
  local leaving = copy(holder)
  leaving[LEAVING] = 'preempted'
  replaceHolder(holder, leaving)
  notify(leaving, heldLine(leaving))
end

-- The id of a runner as JSON, the first of its list. The rest is what somebody says of himself: cjson need not be able
-- to read it.
local function runnerId(text)
  local at = 3
  while true do
    local found = string.find(text, '["\\]', at)
    if string.sub(text, found, found) == '"' then return string.sub(text, 2, found) end
    at = found + 2
  end
end

-- Applies a claim's own rule to those in its way. True: it now has their place, whoever waits.
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
    evictAll(makeRoom(claim, function(holder) return holder[HEARTBEAT] <= silentSince end), '"stale"')
    return false
  end
  if rule == 'same-runner' then
    local runner = runnerId(claim[RUNNER])
    local own = makeRoom(claim, function(holder) return runnerId(holder[RUNNER]) == runner end)
    evictAll(own, '"reclaimed"')
    return #own > 0
  end
  evictAll(makeRoom(claim, function() return true end), '"forced"')
  return true
end
