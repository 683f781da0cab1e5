-- The short form of a key that one plain exclusive claim holds and nobody waits for, and that nothing else is to be
-- said about: what nearly every key is. A text that people can read; to take a part of it takes less time than to unpack
-- numbers. Needs record.lua.
--
--   L fence enteredAt acquiredAt heartbeat ttl renewals id, a space between them, the numbers with leading zeros: 16, 13,
--   13, 13, 10 and 8 digits. Then a line with the channel, and one with the runner. The lease ends one ttl after its
--   last heartbeat.

-- Where the id begins.
local ID_AT = 82

local function isWhole(number, digits)
  return number >= 0 and number < 10 ^ digits and number % 1 == 0
end

local function isOneLine(text)
  return not string.find(text, '\n', 1, true)
end

-- What the form has no room for makes a claim not plain, be it only a ttl of a fraction.
local function isPlain(record)
  return record[PRIORITY] == 0 and record[GRACE] == 0 and not record[SHARED] and not record[RANGE_START]
    and not record[REPLACES] and not record[EVICT] and not record[MAX_HOLD] and not record[DETACHED]
    and not record[LEAVING] and not record[AFTER] and record[EXPIRES_AT] == record[HEARTBEAT] + record[TTL]
    and isWhole(record[HEARTBEAT], 13) and isWhole(record[TTL], 10) and isWhole(record[RENEWALS], 8)
    and isWhole(record[ENTERED_AT], 13) and isWhole(record[ACQUIRED_AT], 13)
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
  if string.find(string.sub(packed, 3, 80), '[^%d ]') then error('LEASEHOLD damaged record') end
  local fence, enteredAt, acquiredAt = string.sub(packed, 3, 18), string.sub(packed, 20, 32), string.sub(packed, 34, 46)
  local heartbeat, ttl, renewals = string.sub(packed, 48, 60), string.sub(packed, 62, 71), string.sub(packed, 73, 80)
  local id, channel, runner = string.match(packed, '^([^\n]*)\n([^\n]*)\n(.*)$', ID_AT)
  return {
    id, channel, runner, tonumber(ttl), heartbeat + ttl, tonumber(heartbeat), tonumber(renewals), tonumber(enteredAt),
    tonumber(acquiredAt), tonumber(fence),
    0, 0, true, false, false, false, false, false, false, false,
    0, false, false, false, false,
  }
end

-- A key as record.lua describes it, in whichever form it is stored; nil if another version wrote it.
local function unpackKey(packed)
  local form = string.byte(packed)
  if form == 76 then return { 2, 0, 0, false, { unpackPlain(packed) } } end
  -- An array of five.
  if form ~= 149 then return nil end
  local key = cmsgpack.unpack(packed)
  return key[VERSION] == 2 and key or nil
end
