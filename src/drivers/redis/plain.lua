-- The short form of a key that one plain exclusive claim holds and nobody waits for, and that nothing else is to be
-- said about: what nearly every key is. It is read and written without unpacking arrays. Needs record.lua.
--
--   'P' expiresAt ttl heartbeat renewals enteredAt acquiredAt fence, each a double; then id, channel and runner, each
--   after its length.

local PLAIN_NUMBERS = '>ddddddd'
local PLAIN_TEXTS = '>Bc0Bc0I4c0'
-- Where the texts begin.
local PLAIN_TEXTS_AT = 58

local function isPlain(record)
  return record[PRIORITY] == 0 and record[GRACE] == 0 and not record[SHARED] and not record[RANGE_START]
    and not record[REPLACES] and not record[EVICT] and not record[MAX_HOLD] and not record[DETACHED]
    and not record[LEAVING] and not record[AFTER] and #record[ID] < 256 and #record[CHANNEL] < 256
end

local function plainTexts(id, channel, runner)
  return struct.pack(PLAIN_TEXTS, #id, id, #channel, channel, #runner, runner)
end

local function packPlain(record)
  local numbers = struct.pack(
    PLAIN_NUMBERS, record[EXPIRES_AT], record[TTL], record[HEARTBEAT], record[RENEWALS], record[ENTERED_AT],
    record[ACQUIRED_AT], record[FENCE]
  )
  return 'P' .. numbers .. plainTexts(record[ID], record[CHANNEL], record[RUNNER])
end

local function unpackPlain(packed)
  local expiresAt, ttl, heartbeat, renewals, enteredAt, acquiredAt, fence = struct.unpack(PLAIN_NUMBERS, packed, 2)
  local id, channel, runner = struct.unpack(PLAIN_TEXTS, packed, PLAIN_TEXTS_AT)
  return {
    id, channel, runner, ttl, expiresAt, heartbeat, renewals, enteredAt, acquiredAt, fence,
    0, 0, true, false, false, false, false, false, false, false,
    0, false, false, false, false,
  }
end

-- A key as record.lua describes it, in whichever form it is stored; nil if a newer version wrote it.
local function unpackKey(packed)
  local form = string.byte(packed)
  if form == 80 then return { 1, 0, 0, false, { unpackPlain(packed) } } end
  -- An array of five.
  if form ~= 149 then return nil end
  local key = cmsgpack.unpack(packed)
  return key[VERSION] == 1 and key or nil
end
