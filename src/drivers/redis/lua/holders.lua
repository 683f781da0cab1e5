-- The holders of a key, as decided so far: in a list while they are few, as the key's record has them, else in keys of their
-- own (spilled.lua). What KeyDraft in core/rule/draft.ts does with its list of holders. Needs key-state.lua and spilled.lua.

-- The most holders that a key's record has. They are packed into it again once there is one, so that a number that goes up
-- and down at the boundary does not move them each time.
local PACKED_MAX, PACKED_AGAIN = 3, 1

-- Moves the holders to keys of their own: one joins, or an older version has packed more.
spill = function()
  local holders = draft.holders
  draft.head[VERSION], draft.head[HOLDERS] = SPILLED_VERSION, {}
  draft.head[HOLDERS_UNTIL], draft.head[LAST_GRANT], draft.head[TALLIES] = 0, 0, {}
  draft.leftOver, draft.headChanged = true, true
  draft.spilled = spilledHolders()
  draft.holders = nil
  for _, holder in ipairs(holders) do draft.spilled.join(holder) end
end

local function holderById(id)
  if draft.spilled then return draft.spilled.byId(id) end
  for _, holder in ipairs(draft.holders) do
    if holder[ID] == id then return holder end
  end
end

-- The most places of which a request remembers that something has changed there.
local TOUCHED_MAX = 16

-- Notes where something has changed: only there can a waiter be granted that could not be before. True: everywhere. For a walk
-- with an index all places are noted, and if a claim of the whole key has changed, from which rank on: a waiter that leaves
-- changes nothing for those before it, and a holder for everybody.
local function touch(claim, rank)
  if draft.places then
    if claim[RANGE_START] then
      draft.places[#draft.places + 1] = claim
    elseif rank or isFirm(claim) or not draft.spilled or draft.spilled.readers() < 2 then
      -- Beside another, a holder that reads the whole key changes nothing for those that wait.
      draft.everywhere = math.min(draft.everywhere or math.huge, rank or -1)
    end
  end
  if draft.touched == true then return end
  if claim[RANGE_START] and #draft.touched < TOUCHED_MAX then
    draft.touched[#draft.touched + 1] = claim
  else
    draft.touched = true
  end
end

-- Whether a waiter may be granted that could not be before: it asks now, or it overlaps a claim that has left or been granted.
local function mayMove(waiter)
  if draft.touched == true or waiter == draft.subject then return true end
  for _, claim in ipairs(draft.touched) do
    if overlaps(claim, waiter) then return true end
  end
  return false
end

local function joinHolder(record)
  touch(record)
  draft.headChanged = true
  if not draft.spilled and #draft.holders >= PACKED_MAX then spill() end
  if draft.spilled then return draft.spilled.join(record) end
  local joined = {}
  for at, holder in ipairs(draft.holders) do joined[at] = holder end
  joined[#joined + 1] = record
  draft.holders = joined
end

local function removeHolder(record)
  touch(record)
  draft.headChanged = true
  if draft.spilled then return draft.spilled.remove(record) end
  local staying = {}
  for _, holder in ipairs(draft.holders) do
    if holder ~= record then staying[#staying + 1] = holder end
  end
  draft.holders = staying
end

local function replaceHolder(record, by)
  if draft.spilled then return draft.spilled.replace(by) end
  local replaced = {}
  for at, holder in ipairs(draft.holders) do replaced[at] = holder == record and by or holder end
  draft.holders = replaced
  draft.headChanged = true
end

-- roomFor beside all holders.
local function roomBeside(claim)
  if draft.spilled then return draft.spilled.roomFor(claim) end
  return roomFor(claim, draft.holders)
end

-- The holders whose range overlaps the claim's.
local function holdersInTheWay(claim)
  if draft.spilled then return draft.spilled.inTheWay(claim) end
  local inTheWay = {}
  for _, holder in ipairs(draft.holders) do
    if overlaps(holder, claim) then inTheWay[#inTheWay + 1] = holder end
  end
  return inTheWay
end

-- When the time of the first of those is over.
local function firstEnd(claim)
  if draft.spilled then return draft.spilled.firstEnd(claim) end
  local first = math.huge
  for _, holder in ipairs(draft.holders) do
    if overlaps(holder, claim) then first = math.min(first, holder[EXPIRES_AT] + holder[GRACE]) end
  end
  return first
end
