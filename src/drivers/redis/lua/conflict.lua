-- Who can share a key with whom: the copy in Lua of core/rule/conflict.ts, over the records of claim-record.lua.

-- Whether two claims touch the same bytes. A claim without a range touches all of them.
local function overlaps(claim, otherClaim)
  if not claim[RANGE_START] or not otherClaim[RANGE_START] then return true end
  return claim[RANGE_START] < otherClaim[RANGE_END] and otherClaim[RANGE_START] < claim[RANGE_END]
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

-- A union of ranges, as disjoint ranges in order: whether one of many ranges overlaps a claim's takes few steps.
local function newCover()
  return { starts = {}, ends = {} }
end

-- How many of these numbers, which ascend, are below a limit.
local function countBelow(numbers, limit)
  local low, high = 0, #numbers
  while low < high do
    local middle = math.ceil((low + high) / 2)
    if numbers[middle] < limit then low = middle else high = middle - 1 end
  end
  return low
end

local function addToCover(cover, claim)
  local starts, ends, from, to = cover.starts, cover.ends, claim[RANGE_START], claim[RANGE_END]
  local first, last = countBelow(ends, from) + 1, countBelow(starts, to + 1)
  if last < first then
    table.insert(starts, first, from)
    table.insert(ends, first, to)
    return
  end
  starts[first], ends[first] = math.min(from, starts[first]), math.max(to, ends[last])
  for at = last, first + 1, -1 do
    table.remove(starts, at)
    table.remove(ends, at)
  end
end

local function isCovered(cover, claim)
  local at = countBelow(cover.starts, claim[RANGE_END])
  return at > 0 and cover.ends[at] > claim[RANGE_START]
end

-- Whether a claim takes from others' places: it is exclusive, or shares by a limit.
local function isFirm(claim)
  return not claim[SHARED] or claim[LIMIT] ~= false
end

-- Whether no claim at all can overtake this one while it waits.
local function holdsUpEverybody(claim)
  return not claim[RANGE_START] and isFirm(claim)
end
