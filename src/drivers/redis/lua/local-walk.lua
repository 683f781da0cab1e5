-- The walk along the queue of a key with many waiters, which decides as the walk of promotion.lua does, and visits only
-- waiters that may move: the copy in Lua of core/rule/local-walk.ts. Those are the asking claim, waiters whose time is over or
-- must be cut, conversions, and waiters that overlap what has left or been granted. Needs promotion.lua and waiter-index.lua.

-- Whether a union of ranges has the whole range of a claim.
local function isInside(cover, claim)
  local at = countBelow(cover.starts, claim[RANGE_START] + 1)
  return at > 0 and cover.ends[at] >= claim[RANGE_END]
end

local function walkLocally()
  local index, rankIn, idIn = draft.index, draft.index.rankIn, draft.index.idIn
  -- What is to be visited, as a heap by rank: a record, or the next member of a group, or the next record of the queue.
  local heap, groups, isDue = {}, {}, {}
  -- The rank and id of the waiter visited; from which rank on all are visited; the places looked at, as a number and as ranges.
  local position, positionId, allFrom, placesSeen, seen = -1, '', math.huge, 0, newCover()
  draft.asking = draft.subject and draft.subject[ID]

  local function push(entry)
    local at = #heap + 1
    while at > 1 do
      local above = math.floor(at / 2)
      if not isBefore(entry.rank, entry.id, heap[above].rank, heap[above].id) then break end
      heap[at] = heap[above]
      at = above
    end
    heap[at] = entry
  end

  local function pop()
    local first, last = heap[1], table.remove(heap)
    if first == last then return first end
    local at = 1
    while true do
      local below = 2 * at
      local least, other = heap[below], heap[below + 1]
      if other and isBefore(other.rank, other.id, least.rank, least.id) then least, below = other, below + 1 end
      if not least or not isBefore(least.rank, least.id, last.rank, last.id) then break end
      heap[at] = least
      at = below
    end
    heap[at] = last
    return first
  end

  local function pushRecord(record, all)
    push({ rank = rankOf(record), id = record[ID], record = record, all = all })
  end

  -- Pushes the next of a group that is behind the position.
  local function pushNextOf(group)
    while true do
      group.at = group.at + 1
      if group.at > #group.members then
        group.members, group.at = index.readGroup(group.name, group.last, group.size), 1
        group.size = math.min(group.size * READ_GROWTH, READ_MAX)
      end
      local member = group.members[group.at]
      if not member then return end
      group.last = member
      local id, rank = idIn(member), rankIn(member)
      if isBefore(position, positionId, rank, id) and index.counts(id) and not isDue[id] then
        return push({ rank = rank, id = id, member = member, group = group })
      end
    end
  end

  local function visitGroup(name, first)
    if groups[name] then return end
    local group = { name = name, members = { first }, at = 0, size = 1, last = first }
    groups[name] = group
    if rankIn(first) < position then group.members, group.last = {}, name .. string.format('%016.0f', position) end
    pushNextOf(group)
  end

  -- Pushes the next waiter of the queue.
  local function pushNextOfAll(all)
    while true do
      all.at = all.at + 1
      if all.at > #all.records then
        local ids = redis.call('ZRANGE', draft.queueName, all.from, all.from + all.size - 1)
        if #ids == 0 then return end
        all.records, all.at, all.from = index.byIds(ids), 0, all.from + #ids
        all.size = math.min(all.size * READ_GROWTH, READ_MAX)
      else
        local record = all.records[all.at]
        local isBehind = isBefore(position, positionId, rankOf(record), record[ID])
        if isBehind and index.counts(record[ID]) then return pushRecord(record, all) end
      end
    end
  end

  -- Looks at places where something has changed since.
  local function look()
    local unseen = #draft.places - placesSeen
    -- To search at more places than there are waiters takes longer than to visit these.
    if unseen > READ_MAX and redis.call('ZCARD', draft.queueName) - #draft.left <= unseen then draft.everywhere = -1 end
    if draft.everywhere and allFrom == math.huge then
      allFrom = math.max(draft.everywhere, position)
      local from = redis.call('ZCOUNT', draft.queueName, '-inf', string.format('(%.0f', allFrom))
      pushNextOfAll({ records = {}, at = 0, size = 1, from = from })
    end
    while placesSeen < #draft.places do
      placesSeen = placesSeen + 1
      local place = draft.places[placesSeen]
      if allFrom > position and not isInside(seen, place) then
        addToCover(seen, place)
        index.eachGroup(place, visitGroup)
      end
    end
  end

  -- Visits the waiter of a member. True: no waiter behind it can be granted. Then, whether it must go on waiting.
  local function offerMember(member)
    local shape = index.shapeOf(member)
    -- Most need not be read: their time is not over, and somebody holds them up.
    if isHeldUp(shape) then
      block(shape)
      return holdsUpEverybody(shape), true
    end
    local record = index.byMember(member)
    if not record then return false, false end
    return offer(record), not draft.leftIds[record[ID]]
  end

  -- Whether a waiter that this walk has not visited holds up a claim at the position.
  draft.isHeldUpUnseen = function(claim)
    if allFrom < 0 then return false end
    if allFrom < position then return index.standInTheWayOf(claim, allFrom, '') end
    return index.standInTheWayOf(claim, position, positionId)
  end

  if draft.subject and draft.subject[FENCE] == 0 then pushRecord(draft.subject) end
  -- Waiters behind a claim that holds up everybody are not visited, though their time be over. Without such a claim, all whose
  -- time is over can leave before the walk.
  local mayStop = index.canHoldUpEverybody() or (draft.subject and holdsUpEverybody(draft.subject))
  for _, stored in ipairs(index.due()) do
    isDue[stored[ID]] = true
    if not index.counts(stored[ID]) then
      -- It has left in an earlier walk, or it asks.
    elseif not mayStop and now >= stored[EXPIRES_AT] then
      dropWaiter(stored, 'expired')
    else
      pushRecord(stored)
    end
  end
  for _, stored in ipairs(index.conversions()) do
    if index.counts(stored[ID]) then pushRecord(stored) end
  end
  look()
  while heap[1] do
    local entry = pop()
    local waits = false
    -- A waiter may be in the heap for several reasons.
    if isBefore(position, positionId, entry.rank, entry.id) then
      if index.isEverybodyHeldUpBefore(entry.rank, entry.id) then return end
      position, positionId = entry.rank, entry.id
      local stop
      if entry.member then stop, waits = offerMember(entry.member) else stop = offer(entry.record) end
      if stop then return end
      look()
    end
    if entry.all then pushNextOfAll(entry.all) end
    -- Behind a waiter that waits, no waiter of its group can be granted. A conversion may wait for other reasons than those.
    if entry.group and not (waits and position >= CONVERSION_CLASSES * CLASS_WEIGHT) then pushNextOf(entry.group) end
  end
end

return { open = openIndex, make = makeIndex, walk = walkLocally }
