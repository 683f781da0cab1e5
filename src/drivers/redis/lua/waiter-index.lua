-- The waiters of a key that has many, found by range and by time, so that a request reads only those that it concerns. Beside
-- the queue and the records of key-state.lua, from which all of it can be made anew:
--   i sorted set: of each waiter shelf, start, end, rank and id in one text, ordered as text
--   x sorted set: ids by the end of their time
--   b sorted set: ids by the beginning of their time (its end less its ttl); if that is to come, the clock was set back
-- A shelf is F, for waiters that take from others' places (isFirm), or S, and two digits: the class of the range's length, as in
-- spilled.lua. Waiters for the whole key are on wF0 and wS0. Waiters for one and the same range on a shelf are a group, in the
-- order of their rank: if the first must wait, so must those behind it.
-- What KeyView offers for such keys, made only when a request meets one. Needs key-state.lua, spilled.lua and conflict.lua.

-- The parts of a member of i that differ from those in spilled.lua.
local GROUP_TO, RANK_FROM, RANK_TO = 35, 36, 51
-- A walk that passes more waiters than this has the index made, which is dropped once no more than those below are left.
local WALKED_MAX, WALKED_AGAIN = 8, 2

-- The order of the queue: by rank. Two waiters may have one rank, if a request ended in an error; then by id, as Redis does.
local function isBefore(rank, id, otherRank, otherId)
  return rank < otherRank or (rank == otherRank and id < otherId)
end

local function waiterIndex()
  local ranges, ends, starts = indexKeys(draft.name)
  local sub, format = string.sub, string.format
  -- As far as this request has read them: the shelves, the waiters whose time is over or must be cut, the first member of each
  -- group that counts, and the place in the queue of the first waiter that counts.
  local shelves, dueWaiters, firstMembers, lowestAt = nil, nil, {}, 0

  local function memberOf(record)
    local start, rangeEnd, shelf = record[RANGE_START], record[RANGE_END], isFirm(record) and 'F' or 'S'
    if start then
      local _, exponent = math.frexp(rangeEnd - start)
      shelf = format('%s%02d', shelf, exponent - 1)
    else
      start, rangeEnd, shelf = 0, RANGE_MAX, 'w' .. shelf .. '0'
    end
    return shelf .. format('%016.0f%016.0f%016.0f', start, rangeEnd, rankOf(record)) .. record[ID]
  end

  local function idIn(member)
    return sub(member, MEMBER_ID_FROM)
  end

  local function rankIn(member)
    return tonumber(sub(member, RANK_FROM, RANK_TO))
  end

  local function isWholeKey(shelf)
    return string.byte(shelf) == 119
  end

  local function isFirmShelf(shelf)
    return sub(shelf, isWholeKey(shelf) and 2 or 1, isWholeKey(shelf) and 2 or 1) == 'F'
  end

  -- As much of the waiter as its member tells: what conflict.lua asks for.
  local function shapeOf(member)
    local shape = { [SHARED] = not isFirmShelf(member), [LIMIT] = false, [RANGE_START] = false }
    if not isWholeKey(member) then
      shape[RANGE_START] = tonumber(sub(member, START_FROM, RANGE_END_FROM - 1))
      shape[RANGE_END] = tonumber(sub(member, RANGE_END_FROM, RANGE_END_TO))
    end
    return shape
  end

  -- ---- reading

  -- Whether a stored waiter counts: it has not left, and is not the asking claim, which counts as the draft has it.
  local function counts(id)
    return not draft.leftIds[id] and id ~= draft.asking
  end

  -- The records of these ids, as stored. What cannot be read counts as gone, and is dropped when the index is made anew.
  local function byIds(ids)
    local records = {}
    for from = 1, #ids, ARGUMENTS_MAX do
      local to = math.min(from + ARGUMENTS_MAX - 1, #ids)
      for _, packed in ipairs(redis.call('HMGET', draft.waitersName, unpack(ids, from, to))) do
        local waiter = packed and unpackWaiter(packed)
        if waiter then records[#records + 1] = waiter else draft.isIndexDamaged = true end
      end
    end
    return records
  end

  -- The waiter of a member; nil if there is none of which the member is.
  local function byMember(member)
    local waiter = byIds({ idIn(member) })[1]
    if waiter and memberOf(waiter) == member then return waiter end
    draft.isIndexDamaged = true
  end

  -- Waiters whose time is over, or whose lease a clock that was set back has stretched.
  local function due()
    if dueWaiters then return dueWaiters end
    local nowText = format('%.17g', now)
    local ids = redis.call('ZRANGEBYSCORE', ends, '-inf', nowText)
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', starts, '(' .. nowText, '+inf')) do ids[#ids + 1] = id end
    dueWaiters = ids[1] and byIds(ids) or ids
    for _, waiter in ipairs(dueWaiters) do
      local rest = waiter[EXPIRES_AT] - now
      if rest > 0 and rest <= waiter[TTL] then draft.isIndexDamaged = true end
    end
    return dueWaiters
  end

  -- Waiters that are to replace a holder: they rank first.
  local function conversions()
    local ids = redis.call('ZRANGEBYSCORE', draft.queueName, '-inf', format('(%.0f', CONVERSION_CLASSES * CLASS_WEIGHT))
    return ids[1] and byIds(ids) or ids
  end

  -- Members of a group after a text, in the order of their rank.
  local function readGroup(group, after, size)
    return redis.call('ZRANGEBYLEX', ranges, '(' .. after, '(' .. group .. '\255', 'limit', 0, size)
  end

  -- The first member of a group that counts. `first` is its first member, if known.
  local function firstOf(group, first)
    local known = firstMembers[group]
    if known == false then return nil end
    local member, size = known or first, 1
    if not member then member = readGroup(group, group, 1)[1] end
    while member and not counts(idIn(member)) do
      local members = readGroup(group, member, size)
      for _, next in ipairs(members) do
        member = next
        if counts(idIn(next)) then break end
      end
      if #members == 0 then member = nil end
      size = math.min(size * READ_GROWTH, ARGUMENTS_MAX)
    end
    firstMembers[group] = member or false
    return member
  end

  local function allShelves()
    if shelves then return shelves end
    local from = '-'
    shelves = {}
    while true do
      local member = redis.call('ZRANGEBYLEX', ranges, from, '+', 'limit', 0, 1)[1]
      if not member then return shelves end
      shelves[#shelves + 1] = sub(member, 1, SHELF_TO)
      from = '(' .. sub(member, 1, SHELF_TO) .. '\255'
    end
  end

  -- Visits each group of a shelf that overlaps the claim, with the first of its members, until a visit is true.
  local function search(shelf, claim, visit)
    local start, rangeEnd = claim[RANGE_START] or 0, claim[RANGE_END] or RANGE_MAX
    local from, to = '[' .. shelf, '(' .. shelf .. '\255'
    if not isWholeKey(shelf) then
      from = from .. format('%016.0f', math.max(0, start - 2 ^ (sub(shelf, 2, SHELF_TO) + 1)))
      to = '(' .. shelf .. format('%016.0f', rangeEnd)
    end
    local size, group = READ_GROWTH, nil
    while true do
      local members, repeated = redis.call('ZRANGEBYLEX', ranges, from, to, 'limit', 0, size), 0
      for _, member in ipairs(members) do
        local memberGroup = sub(member, 1, GROUP_TO)
        if memberGroup == group then
          repeated = repeated + 1
        else
          group = memberGroup
          if tonumber(sub(member, RANGE_END_FROM, RANGE_END_TO)) > start and visit(group, member) then return true end
        end
      end
      if #members < size then return false end
      -- Passes over a group that is large.
      local isLarge = 2 * repeated >= size
      from = '(' .. (isLarge and group .. '\255' or members[size])
      size = isLarge and READ_GROWTH or math.min(size * READ_GROWTH, READ_MAX)
    end
  end

  local function eachGroup(claim, visit)
    for _, shelf in ipairs(allShelves()) do search(shelf, claim, visit) end
  end

  -- The rank and the id of the first waiter that counts.
  local function lowest()
    local size = 1
    while true do
      local found = redis.call('ZRANGE', draft.queueName, lowestAt, lowestAt + size - 1, 'WITHSCORES')
      for at = 1, #found, 2 do
        if counts(found[at]) then return tonumber(found[at + 1]), found[at] end
        lowestAt = lowestAt + 1
      end
      if #found < 2 * size then return math.huge, '' end
      size = math.min(size * READ_GROWTH, ARGUMENTS_MAX)
    end
  end

  -- Whether a waiter before this rank and id stands in the way of the claim (standsInTheWay).
  local function standInTheWayOf(claim, rank, id)
    local lowestRank, lowestId = lowest()
    if not isBefore(lowestRank, lowestId, rank, id) then return false end
    local firm = isFirm(claim)
    if firm and not claim[RANGE_START] then return true end
    for _, shelf in ipairs(allShelves()) do
      local found = (firm or isFirmShelf(shelf)) and search(shelf, claim, function(group, member)
        local first = firstOf(group, member)
        return first ~= nil and isBefore(rankIn(first), idIn(first), rank, id)
      end)
      if found then return true end
    end
    return false
  end

  -- Whether there are waiters that hold up everybody behind them (holdsUpEverybody).
  local function canHoldUpEverybody()
    for _, shelf in ipairs(allShelves()) do
      if shelf == 'wF0' then return true end
    end
    return false
  end

  -- Whether one of those is before this rank and id.
  local function isEverybodyHeldUpBefore(rank, id)
    local first = canHoldUpEverybody() and firstOf('wF0' .. format('%016.0f%016.0f', 0, RANGE_MAX))
    return first and isBefore(rankIn(first), idIn(first), rank, id)
  end

  -- ---- writing

  local function keep()
    local rest = millisecondsUntil(draft.head[WAITERS_UNTIL])
    for _, name in ipairs({ ranges, ends, starts }) do redis.call('PEXPIRE', name, rest) end
  end

  -- Makes the index and the queue anew from the records, without those that have left. Returns the number of waiters.
  local function build()
    local ranked, members, endScores, startScores, unreadable = {}, {}, {}, {}, {}
    local flat = redis.call('HGETALL', draft.waitersName)
    for at = 1, #flat, 2 do
      local id, waiter = flat[at], unpackWaiter(flat[at + 1])
      if not waiter or waiter[ID] ~= id then
        unreadable[#unreadable + 1] = id
      elseif not draft.leftIds[id] then
        local to = #ranked
        ranked[to + 1], ranked[to + 2] = format('%.0f', rankOf(waiter)), id
        members[to + 1], members[to + 2] = '0', memberOf(waiter)
        endScores[to + 1], endScores[to + 2] = format('%.17g', waiter[EXPIRES_AT]), id
        startScores[to + 1], startScores[to + 2] = format('%.17g', waiter[EXPIRES_AT] - waiter[TTL]), id
      end
    end
    for _, name in ipairs({ draft.queueName, ranges, ends, starts }) do redis.call('DEL', name) end
    inPieces('HDEL', draft.waitersName, unreadable)
    inPieces('ZADD', draft.queueName, ranked)
    inPieces('ZADD', ranges, members)
    inPieces('ZADD', ends, endScores)
    inPieces('ZADD', starts, startScores)
    redis.call('PEXPIRE', draft.queueName, millisecondsUntil(draft.head[WAITERS_UNTIL]))
    keep()
    draft.isIndexDamaged = false
    return #ranked / 2
  end

  -- Whether queue, records and index are of as many waiters. If not, something was deleted by hand or evicted by Redis.
  local function isWhole()
    if ON_CLUSTER == 1 then refuseIfMigrating(draft.queueName, draft.waitersName, ranges, ends, starts) end
    local count = redis.call('HLEN', draft.waitersName)
    local isEqual = count > 0
    for _, name in ipairs({ draft.queueName, ranges, ends, starts }) do
      isEqual = isEqual and redis.call('ZCARD', name) == count
    end
    return isEqual
  end

  -- Writes the waiter that has entered, if one has, and those that are rewritten, of which it is one.
  local function store(entered, rewritten)
    local endScores, startScores = {}, {}
    for id, waiter in pairs(rewritten) do
      if not draft.leftIds[id] then
        local to = #endScores
        endScores[to + 1], endScores[to + 2] = format('%.17g', waiter[EXPIRES_AT]), id
        startScores[to + 1], startScores[to + 2] = format('%.17g', waiter[EXPIRES_AT] - waiter[TTL]), id
      end
    end
    if entered then redis.call('ZADD', ranges, '0', memberOf(entered)) end
    inPieces('ZADD', ends, endScores)
    inPieces('ZADD', starts, startScores)
  end

  local function remove(waiters, ids)
    local members = {}
    for at, waiter in ipairs(waiters) do members[at] = memberOf(waiter) end
    inPieces('ZREM', ranges, members)
    inPieces('ZREM', ends, ids)
    inPieces('ZREM', starts, ids)
  end

  return {
    idIn = idIn, rankIn = rankIn, shapeOf = shapeOf, byIds = byIds, byMember = byMember, counts = counts, due = due,
    conversions = conversions, readGroup = readGroup, eachGroup = eachGroup, standInTheWayOf = standInTheWayOf,
    canHoldUpEverybody = canHoldUpEverybody, isEverybodyHeldUpBefore = isEverybodyHeldUpBefore,
    build = build, isWhole = isWhole, store = store, keep = keep, remove = remove,
  }
end

-- Whether a cluster is migrating the slot: no key can be made then.
local function isMigrating()
  return ON_CLUSTER == 1 and type(redis.pcall('EXISTS', draft.name, tag() .. 'none')) ~= 'number'
end

-- Makes the index of a key that has none, or one that is damaged.
local function makeIndex()
  if isMigrating() then return dropIndex() end
  draft.index = draft.index or waiterIndex()
  draft.isIndexed, draft.headChanged = true, true
  if draft.index.build() > 0 then return end
  -- The records are lost.
  dropIndex()
  deleteWaiters()
  draft.head[WAITERS_UNTIL] = 0
end

local function openIndex()
  draft.index = waiterIndex()
  if draft.index.isWhole() then return end
  makeIndex()
  -- Waiters may be missing anywhere.
  draft.touched, draft.everywhere = true, -1
end
