-- The holders of a key that has many, in keys of their own, so that a request reads and writes only those that it concerns:
--   h hash: their records, by id
--   e sorted set: ids by the end of their time, grace included
--   s sorted set: ids by the start of their lease (its end less its ttl); if that is to come, the clock was set back
--   g sorted set: ids by the number of their grant
--   r sorted set: of holders with a range, shelf, start, end, limit and id in one text, ordered as text
-- A shelf is a kind of holder, of which the key's record has the number (TALLIES). Exclusive holders are X, shared ones S, and
-- those shared by a limit L. Holders of the whole key are w and the kind, with the limit after L. Holders of a range are the
-- kind and two digits, the class of the range's length: floor(log2(length)). Those that overlap a range thus begin no earlier
-- than two powers of their class before it.
-- The part of key-state.lua for such keys, made only when a request meets one. Needs key-state.lua and conflict.lua.

-- The parts of a member of r, and the end of the largest range.
local SHELF_TO, START_FROM, RANGE_END_FROM, RANGE_END_TO = 3, 4, 20, 35
local LIMIT_FROM, LIMIT_TO, MEMBER_ID_FROM, RANGE_MAX = 36, 51, 52, 9007199254740992

spilledHolders = function()
  local hash, ends, starts, grants, ranges = holderKeys(draft.name)
  local head = draft.head
  -- False: all holders are new to these keys, and what such keys still have was left behind.
  local areStored = not draft.leftOver
  local tallies = head[TALLIES]
  -- Holders by id, as far as they are known; false: not a holder, or no longer.
  local known = {}
  -- What is to be written: new holders in the order of their grants, others that changed, and those that are gone.
  local joined, joinedIds, rewritten, gone = {}, {}, {}, {}
  -- Holders on each shelf that are stored and not gone; the ranges of new ones, by kind; new ones of a range with a limit.
  local stored, covers, limited = {}, { X = newCover(), S = newCover() }, {}
  local count, storedRanges = 0, 0
  for shelf, tally in pairs(tallies) do
    stored[shelf] = tally
    count = count + tally
    if string.byte(shelf) ~= 119 then storedRanges = storedRanges + tally end
  end

  if ON_CLUSTER == 1 and count > 0 then
    -- Without ranges there is no key of them, and Redis would refuse all requests while it migrates the slot.
    if storedRanges > 0 then
      refuseIfMigrating(hash, ends, starts, grants, ranges)
    else
      refuseIfMigrating(hash, ends, starts, grants)
    end
  end

  local function kindOf(record)
    return not record[SHARED] and 'X' or record[LIMIT] and 'L' or 'S'
  end

  local function shelfOf(record)
    local kind = kindOf(record)
    if not record[RANGE_START] then return kind == 'L' and string.format('wL%.0f', record[LIMIT]) or 'w' .. kind end
    local _, exponent = math.frexp(record[RANGE_END] - record[RANGE_START])
    return string.format('%s%02d', kind, exponent - 1)
  end

  local function memberOf(record)
    local numbers = string.format('%016.0f%016.0f%016.0f', record[RANGE_START], record[RANGE_END], record[LIMIT] or 0)
    return shelfOf(record) .. numbers .. record[ID]
  end

  -- ---- reading

  local function unpackHolder(packed)
    local record = cmsgpack.unpack(packed)
    if not isWaiter(record) or type(record[FENCE]) ~= 'number' then error('LEASEHOLD damaged record') end
    return record
  end

  local function byId(id)
    local record = known[id]
    if record == nil then
      local packed = areStored and redis.call('HGET', hash, id)
      record = packed and unpackHolder(packed)
      known[id] = record
    end
    return record or nil
  end

  -- The holders of these ids, without those that are gone.
  local function byIds(ids)
    local unknown, records = {}, {}
    for _, id in ipairs(ids) do
      if known[id] == nil then unknown[#unknown + 1] = id end
    end
    for from = 1, #unknown, ARGUMENTS_MAX do
      local to = math.min(from + ARGUMENTS_MAX - 1, #unknown)
      for at, packed in ipairs(redis.call('HMGET', hash, unpack(unknown, from, to))) do
        known[unknown[from + at - 1]] = packed and unpackHolder(packed)
      end
    end
    for _, id in ipairs(ids) do
      if known[id] then records[#records + 1] = known[id] end
    end
    return records
  end

  local function inOrderOfGrants()
    local records = areStored and byIds(redis.call('ZRANGE', grants, 0, -1)) or {}
    for _, id in ipairs(joinedIds) do
      if joined[id] then records[#records + 1] = joined[id] end
    end
    return records
  end

  -- Stored holders whose time is over, or whose lease a clock that was set back has stretched.
  local function due()
    if not areStored then return inOrderOfGrants() end
    local nowText = string.format('%.17g', now)
    local ids = redis.call('ZRANGEBYSCORE', ends, '-inf', nowText)
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', starts, '(' .. nowText, '+inf')) do ids[#ids + 1] = id end
    return ids[1] and byIds(ids) or ids
  end

  -- Visits the id and the limit of each stored holder on a shelf of ranges that overlaps the claim, until a visit is true.
  local function search(shelf, claim, visit)
    local start, rangeEnd = claim[RANGE_START] or 0, claim[RANGE_END] or RANGE_MAX
    local reach = 2 ^ (string.sub(shelf, 2, SHELF_TO) + 1)
    local from = '[' .. shelf .. string.format('%016.0f', math.max(0, start - reach))
    local to, size = '(' .. shelf .. string.format('%016.0f', rangeEnd), READ_GROWTH
    while true do
      -- In lower case: LIMIT is a constant here.
      local members = redis.call('ZRANGEBYLEX', ranges, from, to, 'limit', 0, size)
      for _, member in ipairs(members) do
        local id = string.sub(member, MEMBER_ID_FROM)
        if tonumber(string.sub(member, RANGE_END_FROM, RANGE_END_TO)) > start and known[id] ~= false
          and visit(id, tonumber(string.sub(member, LIMIT_FROM, LIMIT_TO))) then return true end
      end
      if #members < size then return false end
      from, size = '(' .. members[size], math.min(size * READ_GROWTH, ARGUMENTS_MAX)
    end
  end

  -- Whether a new holder of this kind, on a range, overlaps the claim.
  local function isNewInTheWay(kind, claim)
    local cover = covers[kind]
    -- The cover also has the range of the claim that this one replaces, if that is new to these keys.
    if cover and not joined[claim[REPLACES]] then return isCovered(cover, claim) end
    for _, holder in pairs(joined) do
      local counts = holder[RANGE_START] and kindOf(holder) == kind and holder[ID] ~= claim[REPLACES]
      if counts and overlaps(holder, claim) then return true end
    end
    return false
  end

  -- Whether a holder on this shelf, which has one besides the one that the claim replaces, overlaps the claim.
  local function isInTheWay(shelf, claim)
    if not claim[RANGE_START] or string.byte(shelf) == 119 then return true end
    if isNewInTheWay(string.sub(shelf, 1, 1), claim) then return true end
    return (stored[shelf] or 0) > 0 and search(shelf, claim, function(id) return id ~= claim[REPLACES] end)
  end

  -- How many holders on a shelf of kind L share with the claim, and whether one does by another limit.
  local function sharingBy(shelf, tally, claim)
    if string.byte(shelf) == 119 then return tally, tonumber(string.sub(shelf, 3)) ~= claim[LIMIT] end
    local sharing, mismatch = 0, false
    for _, holder in ipairs(limited) do
      if holder[ID] ~= claim[REPLACES] and shelfOf(holder) == shelf and overlaps(holder, claim) then
        sharing, mismatch = sharing + 1, mismatch or holder[LIMIT] ~= claim[LIMIT]
      end
    end
    if (stored[shelf] or 0) > 0 then
      search(shelf, claim, function(id, limit)
        if id ~= claim[REPLACES] then sharing, mismatch = sharing + 1, mismatch or limit ~= claim[LIMIT] end
        return mismatch
      end)
    end
    return sharing, mismatch
  end

  -- roomFor in conflict.lua, by the tallies, and by the ranges that overlap where there are ranges.
  local function roomFor(claim)
    local kind = kindOf(claim)
    local replaced = claim[REPLACES] and byId(claim[REPLACES])
    local replacedShelf = replaced and shelfOf(replaced)
    local sharing, mismatch = 0, false
    for shelf, all in pairs(tallies) do
      local tally = shelf == replacedShelf and all - 1 or all
      local shelfKind = string.match(shelf, '[XSL]')
      if tally == 0 or (kind == 'S' and shelfKind == 'S') then
        -- Nobody, or holders beside whom there is always room.
      elseif kind == 'X' or shelfKind == 'X' then
        if isInTheWay(shelf, claim) then return 'none' end
      elseif kind ~= shelfKind then
        mismatch = mismatch or isInTheWay(shelf, claim)
      else
        local shelfSharing, otherLimit = sharingBy(shelf, tally, claim)
        sharing, mismatch = sharing + shelfSharing, mismatch or otherLimit
      end
    end
    if mismatch then return 'mismatch' end
    return kind == 'L' and sharing >= claim[LIMIT] and 'none' or 'room'
  end

  -- Holders of the whole key, and of a range: whether there are any.
  local function haveWholeAndRanges()
    local whole, ranged = false, false
    for shelf in pairs(tallies) do
      if string.byte(shelf) == 119 then whole = true else ranged = true end
    end
    return whole, ranged
  end

  local function rangesInTheWay(claim)
    local ids, records = {}, {}
    for shelf, tally in pairs(stored) do
      if tally > 0 and string.byte(shelf) ~= 119 then
        search(shelf, claim, function(id) ids[#ids + 1] = id end)
      end
    end
    records = byIds(ids)
    for _, holder in pairs(joined) do
      if holder[RANGE_START] and overlaps(holder, claim) then records[#records + 1] = holder end
    end
    return records
  end

  local function inTheWay(claim)
    local whole = haveWholeAndRanges()
    if claim[RANGE_START] and not whole then return rangesInTheWay(claim) end
    local records = {}
    for _, holder in ipairs(inOrderOfGrants()) do
      if overlaps(holder, claim) then records[#records + 1] = holder end
    end
    return records
  end

  local function firstEnd(claim)
    local whole, ranged = haveWholeAndRanges()
    local all, first = not claim[RANGE_START] or not ranged, math.huge
    if not all then
      for _, holder in ipairs(rangesInTheWay(claim)) do first = math.min(first, holder[EXPIRES_AT] + holder[GRACE]) end
    end
    for id, holder in pairs(known) do
      if holder and overlaps(holder, claim) then first = math.min(first, holder[EXPIRES_AT] + holder[GRACE]) end
    end
    if not areStored or not all and not whole then return first end
    -- The first stored holder that this request has left as it was.
    local from, size = 0, 1
    while true do
      local ids = redis.call('ZRANGE', ends, from, from + size - 1, 'WITHSCORES')
      for at = 1, #ids, 2 do
        local id, finish = ids[at], tonumber(ids[at + 1])
        if finish >= first then return first end
        if known[id] ~= false and not rewritten[id] and (all or byId(id) and not byId(id)[RANGE_START]) then return finish end
      end
      if #ids < 2 * size then return first end
      from, size = from + size, math.min(size * READ_GROWTH, READ_MAX)
    end
  end

  -- ---- what changes

  local function changeTally(shelf, by)
    local tally = (tallies[shelf] or 0) + by
    tallies[shelf] = tally > 0 and tally or nil
    count = count + by
  end

  local function noteRange(record)
    if not record[RANGE_START] then return end
    if kindOf(record) == 'L' then limited[#limited + 1] = record else addToCover(covers[kindOf(record)], record) end
  end

  local function join(record)
    known[record[ID]], joined[record[ID]] = record, record
    joinedIds[#joinedIds + 1] = record[ID]
    changeTally(shelfOf(record), 1)
    noteRange(record)
  end

  local function remove(record)
    local id, shelf = record[ID], shelfOf(record)
    changeTally(shelf, -1)
    known[id], rewritten[id] = false, nil
    if not joined[id] then
      stored[shelf] = stored[shelf] - 1
      gone[#gone + 1] = record
      return
    end
    joined[id] = nil
    covers, limited = { X = newCover(), S = newCover() }, {}
    for _, other in pairs(joined) do noteRange(other) end
  end

  local function replace(by)
    known[by[ID]] = by
    if joined[by[ID]] then joined[by[ID]] = by else rewritten[by[ID]] = by end
  end

  -- ---- damage

  -- If keys or records are missing, deleted by hand or evicted by Redis, goes on with the records that are left. Each key counts:
  -- without the ranges, two could hold the same bytes.
  local function mend()
    if not areStored then return end
    local isWhole = redis.call('HLEN', hash) == count
    for _, name in ipairs({ ends, starts, grants }) do isWhole = isWhole and redis.call('ZCARD', name) == count end
    if isWhole and (storedRanges == 0 or redis.call('ZCARD', ranges) == storedRanges) then return end
    -- The keys are deleted and made anew. While a slot migrates, Redis refuses to make one: all holders would be lost.
    if ON_CLUSTER == 1 then refuseIfMigrating(hash, tag() .. 'none') end
    local records, flat = {}, redis.call('HGETALL', hash)
    for at = 2, #flat, 2 do records[#records + 1] = unpackHolder(flat[at]) end
    table.sort(records, function(record, otherRecord) return record[FENCE] < otherRecord[FENCE] end)
    draft.head = { FORMAT_VERSION, head[LAST_ORDER], head[WAITERS_UNTIL], head[ENDED], {} }
    draft.spilled, draft.holders = nil, records
    -- Holders may be missing anywhere.
    draft.leftOver, draft.headChanged = true, true
    draft.touched, draft.everywhere = true, -1
    if #records > PACKED_MAX then spill() end
  end

  -- ---- writing

  -- Keeps the keys for at least one ttl longer than this holder. True: they must be kept for longer than so far.
  local function keep(record)
    local horizon = record[EXPIRES_AT] + record[GRACE] + record[TTL]
    if horizon <= head[HOLDERS_UNTIL] then return false end
    -- One ttl more, so that not each renewal must do so.
    head[HOLDERS_UNTIL] = horizon + record[TTL]
    draft.headChanged = true
    return true
  end

  local function store()
    if draft.leftOver then deleteHolderKeys() end
    local records, endScores, startScores, grantScores, members = {}, {}, {}, {}, {}
    local longer = false
    local function put(id, record)
      local at = #records
      records[at + 1], records[at + 2] = id, cmsgpack.pack(record)
      endScores[at + 1], endScores[at + 2] = string.format('%.17g', record[EXPIRES_AT] + record[GRACE]), id
      startScores[at + 1], startScores[at + 2] = string.format('%.17g', record[EXPIRES_AT] - record[TTL]), id
      longer = keep(record) or longer
    end
    for id, record in pairs(rewritten) do put(id, record) end
    for _, id in ipairs(joinedIds) do
      local record = joined[id]
      if record then
        put(id, record)
        head[LAST_GRANT] = head[LAST_GRANT] + 1
        grantScores[#grantScores + 1] = string.format('%.0f', head[LAST_GRANT])
        grantScores[#grantScores + 1] = id
        if record[RANGE_START] then
          members[#members + 1] = '0'
          members[#members + 1] = memberOf(record)
        end
      end
    end
    inPieces('HSET', hash, records)
    inPieces('ZADD', ends, endScores)
    inPieces('ZADD', starts, startScores)
    inPieces('ZADD', grants, grantScores)
    inPieces('ZADD', ranges, members)
    -- The key of ranges may be new. If there is none, it is not named: Redis would refuse it while it migrates the slot.
    if longer or members[1] then
      local rest = millisecondsUntil(head[HOLDERS_UNTIL])
      for _, name in ipairs({ hash, ends, starts, grants }) do redis.call('PEXPIRE', name, rest) end
      if storedRanges > 0 or members[1] then redis.call('PEXPIRE', ranges, rest) end
    end
  end

  -- Whether that makes keys that are new.
  local function makesKeys()
    if count <= (draft.leftOver and PACKED_MAX or PACKED_AGAIN) then return false end
    if draft.leftOver then return true end
    for _, holder in pairs(joined) do
      if holder[RANGE_START] and storedRanges == 0 then return true end
    end
    return false
  end

  -- Writes what changed, or packs the holders into the key's record again, if they are few.
  local function packOrStore()
    if count > (draft.leftOver and PACKED_MAX or PACKED_AGAIN) then return store() end
    draft.holders = count > 0 and inOrderOfGrants() or {}
    draft.head = { FORMAT_VERSION, head[LAST_ORDER], head[WAITERS_UNTIL], head[ENDED], {} }
    draft.spilled, draft.leftOver, draft.headChanged = nil, true, true
  end

  local function removeGone()
    local ids, members = {}, {}
    for at, record in ipairs(gone) do
      ids[at] = record[ID]
      if record[RANGE_START] then members[#members + 1] = memberOf(record) end
    end
    inPieces('HDEL', hash, ids)
    inPieces('ZREM', ends, ids)
    inPieces('ZREM', starts, ids)
    inPieces('ZREM', grants, ids)
    inPieces('ZREM', ranges, members)
  end

  return {
    byId = byId, inOrderOfGrants = inOrderOfGrants, due = due, roomFor = roomFor, inTheWay = inTheWay, firstEnd = firstEnd,
    join = join, remove = remove, replace = replace, mend = mend, packOrStore = packOrStore, removeGone = removeGone,
    makesKeys = makesKeys, heldAlone = function() return tallies.wX ~= nil end, readers = function() return tallies.wS or 0 end,
  }
end
