-- The fences of one call: `fences`, the last one of each hash tag as the call has it, and `storedFences`, as Redis has it.
-- A fence is stored before a record has it: however the call ends, no fence is given twice.
-- Functions get the call as an argument: one that refers to variables around it is expensive to make, and all are made anew
-- for every call.

-- While a cluster moves a slot, what is missing here may be on the other node: made anew, it would be there twice. Redis
-- then refuses a command on two keys of which one is missing.
local function refuseIfHalfMoved(one, other)
  if type(redis.pcall('EXISTS', one, other)) ~= 'number' then error('LEASEHOLD half moved') end
end

-- Reads the last fence of a hash tag, and lifts it to the wall clock: whatever a crash or a failover has lost, the next
-- fence is past it. Answers with the next fence.
local function fenceToCome(call, tag)
  local last = call.fences[tag]
  if last then return last + 1 end
  local clock, name = call.wallMicroseconds, tag .. 'fence'
  local stored = redis.call('SET', name, call.wallText, 'GET')
  if not stored then
    -- The first of its tag, or it is still to come.
    redis.call('DEL', name)
    refuseIfHalfMoved(name, tag .. 'none')
    redis.call('SET', name, call.wallText)
  end
  -- Of what is no number, nan included, nothing is known but that the wall clock is past it.
  if stored and not string.find(stored, '^%d+$') then stored = '0' end
  local last = math.max(tonumber(stored or '0'), clock - 1)
  -- Not even for the length of this call may a clock that is behind lower it: the call may end in an error.
  if last > clock then redis.call('SET', name, stored) end
  call.storedFences[tag] = math.max(last, clock)
  call.fences[tag] = last
  return last + 1
end

-- Takes the fences of a hash tag up to this one. In a call of many requests it stores as many more as there may be need of,
-- which dropSpareFences gives back: else each fence would take a command of its own.
local function liftFence(call, tag, fence)
  if fence > 9007199254740991 then error('LEASEHOLD fence beyond 2^53') end
  if fence <= call.fences[tag] then return end
  if fence > call.storedFences[tag] then
    local stored = math.min(fence + #KEYS - 1, 9007199254740991)
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

-- One fence for all plain claims of a call in which no key comes twice: it has to be above those that their keys had
-- before, and those of other keys are no matter. `call.claimTags` has their hash tags, three characters each. Nil where
-- each claim must have a fence of its own: also if one of several counters is past the clock, since the others are not
-- to be lifted as far as that.
local function fenceForAll(call)
  local tags, clock = call.claimTags, call.wallMicroseconds
  local before = string.sub(KEYS[1], 1, call.tagEnd - 4)
  if #tags == 3 then
    local tag = before .. tags .. '}'
    local fence = fenceToCome(call, tag)
    if fence > 9007199254740991 then return nil end
    liftFence(call, tag, fence)
    return fence
  end
  local names, lifted = {}, {}
  for at = 1, #tags, 3 do
    local name = before .. string.sub(tags, at, at + 2) .. '}fence'
    names[#names + 1] = name
    lifted[#lifted + 1] = name
    lifted[#lifted + 1] = call.wallText
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
