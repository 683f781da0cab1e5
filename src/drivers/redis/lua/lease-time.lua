-- How leases end: the copy in Lua of core/rule/claim-record.ts. Needs record.lua and key.lua.

local function capByMaxHold(ends, acquiredAt, maxHold)
  return maxHold and math.min(ends, acquiredAt + maxHold) or ends
end

local function howEnded(record)
  local maxHold = record[MAX_HOLD]
  return maxHold and record[EXPIRES_AT] >= record[ACQUIRED_AT] + maxHold and 'max-hold' or 'expired'
end

-- The record as it counts now: one with more than its ttl left (the clock went back) is cut to its ttl.
local function judge(record)
  if record[EXPIRES_AT] - now <= record[TTL] then return record end
  local cut = copy(record)
  cut[ACQUIRED_AT] = math.min(record[ACQUIRED_AT], now)
  cut[HEARTBEAT] = math.min(record[HEARTBEAT], now)
  cut[EXPIRES_AT] = now + record[TTL]
  if record[FENCE] ~= 0 then
    cut[EXPIRES_AT] = capByMaxHold(cut[EXPIRES_AT], cut[ACQUIRED_AT], record[MAX_HOLD])
  end
  return cut
end
