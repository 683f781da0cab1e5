-- The short form of a key that one plain exclusive claim holds and nobody waits for: what nearly every key is. A text that
-- people can read; to take a part of it takes less time than to unpack numbers. No copy of a part of the rule.
-- Needs claim-record.lua.
--
--   L fence enteredAt acquiredAt heartbeat ttl renewals id, a space between them, the numbers with leading zeros: 16, 13,
--   13, 13, 10 and 8 digits. Then a line with the channel, and one with the runner. The lease ends one ttl after its
--   last heartbeat.

-- Its first byte, L; where its parts begin and end; where its heartbeat begins, counted from 0 as Redis does.
local PLAIN_MARK = 76
local FENCE_FROM, FENCE_TO, ENTERED_FROM, ENTERED_TO, ACQUIRED_FROM, ACQUIRED_TO = 3, 18, 20, 32, 34, 46
local HEARTBEAT_FROM, HEARTBEAT_TO, TTL_FROM, TTL_TO, RENEWALS_FROM, RENEWALS_TO = 48, 60, 62, 71, 73, 80
local ID_FROM, HEARTBEAT_OFFSET = 82, 47
-- How many digits times, ttl and renewals have, and the most of the last two.
local TIME_DIGITS, TTL_DIGITS, RENEWALS_DIGITS, TTL_MAX, RENEWALS_MAX = 13, 10, 8, 9999999999, 99999999

local function isWhole(number, digits)
  return number >= 0 and number < 10 ^ digits and number % 1 == 0
end

local function isOneLine(text)
  return not string.find(text, '\n', 1, true)
end

-- A claim is not plain if the form has no room for a part of it, such as the fraction of a ttl.
local function isPlain(record)
  return record[PRIORITY] == 0 and record[GRACE] == 0 and not record[SHARED] and not record[RANGE_START]
    and not record[REPLACES] and not record[EVICT] and not record[MAX_HOLD] and not record[DETACHED]
    and not record[LEAVING] and not record[AFTER] and record[EXPIRES_AT] == record[HEARTBEAT] + record[TTL]
    and isWhole(record[HEARTBEAT], TIME_DIGITS) and isWhole(record[TTL], TTL_DIGITS) and isWhole(record[RENEWALS], RENEWALS_DIGITS)
    and isWhole(record[ENTERED_AT], TIME_DIGITS) and isWhole(record[ACQUIRED_AT], TIME_DIGITS)
    and isOneLine(record[ID]) and isOneLine(record[CHANNEL])
end

local function packPlain(record)
  local numbers = string.format(
    'L %016.0f %013.0f %013.0f %013.0f %010.0f %08.0f ', record[FENCE], record[ENTERED_AT], record[ACQUIRED_AT],
    record[HEARTBEAT], record[TTL], record[RENEWALS]
  )
  return numbers .. record[ID] .. '\n' .. record[CHANNEL] .. '\n' .. record[RUNNER]
end

local function unpackPlain(packed)
  if string.find(string.sub(packed, FENCE_FROM, RENEWALS_TO), '[^%d ]') then error('LEASEHOLD damaged record') end
  local fence, enteredAt = string.sub(packed, FENCE_FROM, FENCE_TO), string.sub(packed, ENTERED_FROM, ENTERED_TO)
  local acquiredAt = string.sub(packed, ACQUIRED_FROM, ACQUIRED_TO)
  local heartbeat, ttl = string.sub(packed, HEARTBEAT_FROM, HEARTBEAT_TO), string.sub(packed, TTL_FROM, TTL_TO)
  local renewals = string.sub(packed, RENEWALS_FROM, RENEWALS_TO)
  local id, channel, runner = string.match(packed, '^([^\n]*)\n([^\n]*)\n(.*)$', ID_FROM)
  return {
    id, channel, runner, tonumber(ttl), heartbeat + ttl, tonumber(heartbeat), tonumber(renewals), tonumber(enteredAt),
    tonumber(acquiredAt), tonumber(fence),
    0, 0, true, false, false, false, false, false, false, false,
    0, false, false, false, false,
  }
end

-- A key as claim-record.lua describes it, in whichever form it is stored, and whether its waiters have an index; nil if another
-- version wrote it.
local function unpackKey(packed)
  local form = string.byte(packed)
  if form == PLAIN_MARK then return { FORMAT_VERSION, 0, 0, false, { unpackPlain(packed) } } end
  if form ~= ARRAY_MARK and form ~= SPILLED_MARK and form ~= INDEXED_MARK then return nil end
  local key = cmsgpack.unpack(packed)
  if form ~= INDEXED_MARK then return key[VERSION] == (form == ARRAY_MARK and FORMAT_VERSION or SPILLED_VERSION) and key or nil end
  if key[VERSION] ~= INDEXED_VERSION then return nil end
  -- In the form that it has without the index.
  local parts = key[TALLIES] and TALLIES or HOLDERS
  return { key[TALLIES] and SPILLED_VERSION or FORMAT_VERSION, unpack(key, LAST_ORDER, parts) }, true
end
