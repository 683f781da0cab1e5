-- The fences of one call: `fences`, the last one of each hash tag as the call has it, and `storedFences`, as Redis has it.
-- Functions get the call as an argument: one that refers to variables around it is dear to make, and all are made anew
-- for every call.

local function storeFences(call)
  for tag, fence in pairs(call.fences) do
    if fence > call.storedFences[tag] then redis.call('SET', tag .. 'fence', string.format('%.0f', fence)) end
  end
end

-- While a cluster moves a slot, what is missing here may be on the other node: made anew, it would be there twice. Redis
-- then refuses a command on two keys of which one is missing. Gives up the call; fences that it gave away stay given.
local function refuseIfHalfMoved(call, one, other)
  if type(redis.pcall('EXISTS', one, other)) == 'number' then return end
  storeFences(call)
  error('LEASEHOLD half moved')
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
    refuseIfHalfMoved(call, name, tag .. 'none')
    redis.call('SET', name, call.wallText)
  end
  local last = math.max(tonumber(stored or '0'), clock - 1)
  -- Not even for the length of this call may a clock that is behind lower it: the call may end in an error.
  if last > clock then redis.call('SET', name, stored) end
  call.storedFences[tag] = math.max(last, clock)
  call.fences[tag] = last
  return last + 1
end

local function liftFence(call, tag, floor)
  if floor > 9007199254740991 then
    storeFences(call)
    error('LEASEHOLD fence beyond 2^53')
  end
  if floor > call.fences[tag] then call.fences[tag] = floor end
end

-- One fence for all plain claims of a call in which no key comes twice: it has to be above those that their keys had
-- before, and those of other keys are no matter. `call.claimTags` has their hash tags, three characters each. Nil where
-- each claim must have a fence of its own: also if one of several counters is past the clock, since the others are not
-- to be lifted as far as that. It is stored before it is given: however the call ends, it is not given again.
local function fenceForAll(call)
  local tags, clock = call.claimTags, call.wallMicroseconds
  local before = string.sub(KEYS[1], 1, call.tagEnd - 4)
  if #tags == 3 then
    local tag = before .. tags .. '}'
    local fence = fenceToCome(call, tag)
    if fence > 9007199254740991 then return nil end
    liftFence(call, tag, fence)
    storeFences(call)
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
    if stored and tonumber(stored) >= clock then return nil end
  end
  redis.call('MSET', unpack(lifted))
  for _, name in ipairs(names) do
    local tag = string.sub(name, 1, call.tagEnd)
    call.fences[tag], call.storedFences[tag] = clock, clock
  end
  return clock
end
