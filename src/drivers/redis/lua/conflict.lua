-- Who can share a key with whom: the copy in Lua of core/rule/conflict.ts, over the records of record.lua.

local function overlaps(one, other)
  if not one[RANGE_START] or not other[RANGE_START] then return true end
  return one[RANGE_START] < other[RANGE_END] and other[RANGE_START] < one[RANGE_END]
end

-- Whether a claim that must go on waiting holds up one behind it.
local function standsInTheWay(ahead, behind)
  if not overlaps(ahead, behind) then return false end
  return not (ahead[SHARED] and behind[SHARED]) or ahead[LIMIT] ~= false or behind[LIMIT] ~= false
end

-- Whether a claim can join those who hold: 'room', 'none', or 'mismatch' when they share by another limit.
local function roomFor(claim, holding)
  local sharing, mismatch = 0, false
  for _, holder in ipairs(holding) do
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

-- A waiter's place in the queue as one number, least first: conversions, then higher priority, then arrival.
-- 12 bits for the class and 41 for the order fit the 53 that a score can notify apart.
local function score(record)
  local class = 1000 - record[PRIORITY]
  if not record[REPLACES] then class = class + 2001 end
  return class * 2199023255552 + record[ORDER]
end
