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
