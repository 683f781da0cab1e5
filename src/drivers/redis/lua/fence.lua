-- Minting fences: the copy in Lua of core/rule/fence.ts, with a counter for each hash tag.
-- `call.fences` has the last fence of each hash tag as this call knows it, `call.storedFences` as Redis has it. A fence is
-- stored before a record has it: however the call ends, no fence is minted twice.
-- Functions get the call as an argument: a closure over variables is expensive to make, and all are made for every call.

-- The highest fence, 2^53 - 1: nextFence in fence.ts refuses more.
local FENCE_MAX = 9007199254740991
-- How many characters of a hash tag differ between tags.
local TAG_LENGTH = 3

-- While a cluster migrates a slot, a key that is missing here may be on the other node: made anew, it would exist twice.
-- Redis then refuses a command on several keys of which one is missing.
local function refuseIfMigrating(...)
  if type(redis.pcall('EXISTS', ...)) ~= 'number' then error('LEASEHOLD half moved') end
end

-- nextFence: above the last of the hash tag, and at least the wall clock, which is stored at once: whatever a crash or a
-- failover has lost, the next fence is past it.
local function nextFence(call, tag)
  local last = call.fences[tag]
  if last then return last + 1 end
  local clock, name = call.fenceFloor, tag .. 'fence'
  local stored = redis.call('SET', name, call.fenceFloorText, 'GET')
  if not stored then
    -- The first fence of its tag, or the slot is migrating and the fence has not arrived yet.
    redis.call('DEL', name)
    refuseIfMigrating(name, tag .. 'none')
    redis.call('SET', name, call.fenceFloorText)
  end
  -- If the stored text is no number, nan included, only the wall clock counts.
  if stored and not string.find(stored, '^%d+$') then stored = '0' end
  local last = math.max(tonumber(stored or '0'), clock - 1)
  -- A clock that is behind must not lower the fence, not even during this call: the call may end in an error.
  if last > clock then redis.call('SET', name, stored) end
  call.storedFences[tag] = math.max(last, clock)
  call.fences[tag] = last
  return last + 1
end

-- Lifts the fences of a hash tag to this one. Stores as many more as the requests of this call may need, so that not each
-- fence takes a command of its own; dropSpareFences gives the rest back.
local function liftFence(call, tag, fence)
  if fence > FENCE_MAX then error('LEASEHOLD fence beyond 2^53') end
  if fence <= call.fences[tag] then return end
  if fence > call.storedFences[tag] then
    local stored = math.min(fence + #KEYS - 1, FENCE_MAX)
    redis.call('SET', tag .. 'fence', string.format('%.0f', stored))
    call.storedFences[tag] = stored
    if stored > fence then call.spareFences[tag] = true end
  end
  call.fences[tag] = fence
end

local function dropSpareFences(call)
  local lowered = {}
  for tag in pairs(call.spareFences) do
    lowered[#lowered + 1] = tag .. 'fence'
    lowered[#lowered + 1] = string.format('%.0f', call.fences[tag])
  end
  if lowered[1] then redis.call('MSET', unpack(lowered)) end
end

-- One fence for all plain claims of a call in which no key comes twice: it must be above the fences of their own keys
-- only. `call.claimTags` has their hash tags. Nil where each claim must have a fence of its own; also if one of several
-- counters is past the clock, as the others must not be lifted that far.
local function fenceForAll(call)
  local tags, clock = call.claimTags, call.fenceFloor
  local before = string.sub(KEYS[1], 1, call.tagEnd - TAG_LENGTH - 1)
  if #tags == TAG_LENGTH then
    local tag = before .. tags .. '}'
    local fence = nextFence(call, tag)
    if fence > FENCE_MAX then return nil end
    liftFence(call, tag, fence)
    return fence
  end
  local names, lifted = {}, {}
  for at = 1, #tags, TAG_LENGTH do
    local name = before .. string.sub(tags, at, at + TAG_LENGTH - 1) .. '}fence'
    names[#names + 1] = name
    lifted[#lifted + 1] = name
    lifted[#lifted + 1] = call.fenceFloorText
  end
  if #names == 0 then return nil end
  for _, stored in ipairs(redis.call('MGET', unpack(names))) do
    if stored and not (tonumber(stored) and tonumber(stored) < clock) then return nil end
  end
  redis.call('MSET', unpack(lifted))
  for _, name in ipairs(names) do
    local tag = string.sub(name, 1, call.tagEnd)
    call.fences[tag], call.storedFences[tag] = clock, clock
  end
  return clock
end
