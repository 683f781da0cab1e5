-- What all parts of one call share: its clock, who calls, and the fences.
-- ARGV: where the hash tag ends in each of KEYS; the caller's channel; a test's clock in ms, or empty; ms to keep keys
--   beyond their end; …

local tagEnd, channel, spareMs = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[4])
local time = redis.call('TIME')
local wallMicroseconds = time[1] * 1000000 + time[2]
local now = math.floor(wallMicroseconds / 1000)
if ARGV[3] ~= '' then
  now = tonumber(ARGV[3])
  wallMicroseconds = now * 1000
end

-- The last fence of each hash tag that was read, and those that must be written.
local fences, fencesChanged = {}, {}

local function liftFence(tag, floor)
  local last = fences[tag]
  if not last then
    last = tonumber(redis.call('GET', tag .. 'fence') or '0')
    fences[tag] = last
  end
  if floor <= last then return end
  fences[tag] = floor
  fencesChanged[tag] = true
end

-- The next fence of a hash tag. Always at least the wall clock: whatever a crash or a failover has lost, it is past that.
local function fenceToCome(tag)
  if not fences[tag] then liftFence(tag, 0) end
  local fence = math.max(fences[tag] + 1, wallMicroseconds)
  if fence > 9007199254740991 then error('LEASEHOLD fence beyond 2^53') end
  return fence
end

local function storeFences()
  for tag in pairs(fencesChanged) do
    redis.call('SET', tag .. 'fence', string.format('%.0f', fences[tag]))
  end
end

-- The short form of a key: see plain.lua. Where its texts begin, and the id after its length.
local PLAIN_NUMBERS = '>ddddddd'
local PLAIN_TEXTS_AT, PLAIN_ID_AT = 58, 59
