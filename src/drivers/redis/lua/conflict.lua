-- Who can share a key with whom: the copy in Lua of core/rule/conflict.ts, over the records of claim-record.lua.

-- Whether two claims touch the same bytes. A claim without a range touches all of them.
local function overlaps(claim, otherClaim)
  if not claim[RANGE_START] or not otherClaim[RANGE_START] then return true end
  return claim[RANGE_START] < otherClaim[RANGE_END] and otherClaim[RANGE_START] < claim[RANGE_END]
end

-- Whether a claim that must go on waiting (blocked) holds up a claim behind it.
local function standsInTheWay(blocked, behind)
  if not overlaps(blocked, behind) then return false end
  return not (blocked[SHARED] and behind[SHARED]) or blocked[LIMIT] ~= false or behind[LIMIT] ~= false
end

-- Whether a claim can join the holders: 'room', 'none', or 'mismatch' when they share by another limit.
local function roomFor(claim, holders)
  local sharing, mismatch = 0, false
  for _, holder in ipairs(holders) do
    if holder[ID] ~= claim[REPLACES] and overlaps(holder, claim) then
      if not (holder[SHARED] and claim[SHARED]) then return 'none' end
      if holder[LIMIT] ~= claim[LIMIT] then mismatch = true end
      sharing = sharing + 1
    end
  end
  if mismatch then return 'mismatch' end
  if claim[LIMIT] and sharing >= claim[LIMIT] then return 'none' end
  return 'room'
end

-- Whether no claim at all can overtake this one while it waits.
local function holdsUpEverybody(claim)
  return not claim[RANGE_START] and (not claim[SHARED] or claim[LIMIT] ~= false)
end
