-- The fences of one call: `fences`, the last one of each hash tag as the call has it, and `storedFences`, as Redis has it.
-- Functions get the call as an argument: one that refers to variables around it is dear to make, and all are made anew
-- for every call.

-- Reads the last fence of a hash tag, and lifts it to the wall clock: whatever a crash or a failover has lost, the next
-- fence is past it. Answers with the next fence.
local function fenceToCome(call, tag)
  local last = call.fences[tag]
  if last then return last + 1 end
  local clock = call.wallMicroseconds
  local stored = tonumber(redis.call('SET', tag .. 'fence', call.wallText, 'GET') or '0')
  call.storedFences[tag] = clock
  call.fences[tag] = math.max(stored, clock - 1)
  return call.fences[tag] + 1
end

local function liftFence(call, tag, floor)
  if floor > 9007199254740991 then error('LEASEHOLD fence beyond 2^53') end
  if floor > call.fences[tag] then call.fences[tag] = floor end
end

local function storeFences(call)
  for tag, fence in pairs(call.fences) do
    if fence > call.storedFences[tag] then redis.call('SET', tag .. 'fence', string.format('%.0f', fence)) end
  end
end
