-- A claim as Redis keeps it, and how its lease ends: the copy in Lua of core/rule/claim-record.ts, name by name.
--
-- A key is stored as arrays packed with cmsgpack. Absent is false: nil would end an array. Most keys are stored shorter:
-- see plain.lua. Lines such as `local ID = 1` are constants: script.ts puts the numbers in their place.

-- A claim, held or waiting. Times are milliseconds of this server's clock; runner is JSON that only clients read.
local ID, CHANNEL, RUNNER, TTL, EXPIRES_AT = 1, 2, 3, 4, 5
local HEARTBEAT, RENEWALS, ENTERED_AT, ACQUIRED_AT, FENCE = 6, 7, 8, 9, 10
local ORDER, PRIORITY, WAIT, SHARED, LIMIT = 11, 12, 13, 14, 15
local RANGE_START, RANGE_END, REPLACES, EVICT, STALE = 16, 17, 18, 19, 20
local GRACE, MAX_HOLD, DETACHED, LEAVING, AFTER = 21, 22, 23, 24, 25

-- A key. WAITERS_UNTIL is 0 when nobody waits, else no earlier than the last waiter's end.
local VERSION, LAST_ORDER, WAITERS_UNTIL, ENDED, HOLDERS = 1, 2, 3, 4, 5
-- Besides, if its holders are in keys of their own (spilled.lua): no earlier than one ttl after the last holder's end, the
-- number of the last grant, and how many holders are on each shelf. HOLDERS is empty then.
local HOLDERS_UNTIL, LAST_GRANT, TALLIES = 6, 7, 8
-- If its waiters have an index (waiter-index.lua), all of these are stored, and true after them; TALLIES may be false then.

-- The last unclean end of a key (Ended): for its owner, and for the next claim that is granted.
local ENDED_ID, ENDED_HOW, ENDED_DETAIL, ENDED_FENCE = 1, 2, 3, 4
-- Versions before this one wrote no cause.
local ENDED_RUNNER, ENDED_UNTIL, ENDED_TOLD, ENDED_CAUSE = 5, 6, 7, 8

-- The format of a key that this version writes, and the first byte of one: an array of five.
local FORMAT_VERSION, ARRAY_MARK = 2, 149
-- The same of a key whose holders are in keys of their own: an array of eight. Older versions refuse it by its first byte.
local SPILLED_VERSION, SPILLED_MARK = 3, 152
-- The same of a key whose waiters have an index: an array of nine.
local INDEXED_VERSION, INDEXED_MARK = 4, 153

-- copyRecord: a record to change before it is stored.
local function copyRecord(record)
  local new = {}
  for field = 1, AFTER do new[field] = record[field] end
  return new
end

-- The end of a lease, no later than its longest hold allows.
local function capByMaxHold(ends, acquiredAt, maxHold)
  return maxHold and math.min(ends, acquiredAt + maxHold) or ends
end

-- Why a holder's time is over. Redis does not see processes die.
local function howEnded(record)
  local maxHold = record[MAX_HOLD]
  return maxHold and record[EXPIRES_AT] >= record[ACQUIRED_AT] + maxHold and 'max-hold' or 'expired'
end

-- The record as it counts now: if more than its ttl is left, the clock was set back, and the lease is cut to its ttl.
local function judge(record)
  if record[EXPIRES_AT] - now <= record[TTL] then return record end
  local cut = copyRecord(record)
  cut[ACQUIRED_AT] = math.min(record[ACQUIRED_AT], now)
  cut[HEARTBEAT] = math.min(record[HEARTBEAT], now)
  cut[EXPIRES_AT] = now + record[TTL]
  if record[FENCE] ~= 0 then
    cut[EXPIRES_AT] = capByMaxHold(cut[EXPIRES_AT], cut[ACQUIRED_AT], record[MAX_HOLD])
  end
  return cut
end

-- compareRank as a number, least first: conversions, then higher priority, then arrival. 12 bits for the class and 41 for
-- the order fit the 53 bits of a score. PRIORITY_MAX is the most of requestBounds.priority in core/contract/bounds.ts.
local PRIORITY_MAX, CONVERSION_CLASSES, CLASS_WEIGHT = 1000, 2001, 2199023255552
-- The class of a plain claim: PRIORITY_MAX + CONVERSION_CLASSES.
local PLAIN_CLASS = 3001
local function rankOf(record)
  local class = PRIORITY_MAX - record[PRIORITY]
  if not record[REPLACES] then class = class + CONVERSION_CLASSES end
  return class * CLASS_WEIGHT + record[ORDER]
end

-- The keys that hold the waiters of a key: their order, and their records by id.
-- A record's name is PREFIX{TAG}k:KEY.
local function waiterKeys(name)
  local tag, rest = string.sub(name, 1, tagEnd), string.sub(name, tagEnd + 2)
  return tag .. 'q' .. rest, tag .. 'w' .. rest
end

-- The keys of the index of a key's waiters, once they are many: ranges; ids by the end and by the beginning of their time.
local function indexKeys(name)
  local tag, rest = string.sub(name, 1, tagEnd), string.sub(name, tagEnd + 2)
  return tag .. 'i' .. rest, tag .. 'x' .. rest, tag .. 'b' .. rest
end

-- The keys that hold the holders of a key, once they are many: records by id; ids by the end of their time, by the start of
-- their lease, and by grant; ranges.
local function holderKeys(name)
  local tag, rest = string.sub(name, 1, tagEnd), string.sub(name, tagEnd + 2)
  return tag .. 'h' .. rest, tag .. 'e' .. rest, tag .. 's' .. rest, tag .. 'g' .. rest, tag .. 'r' .. rest
end
