-- What needs no rule: a plain claim on a free key, and its renewal and release while nobody waits. Each function answers
-- nil where the rule must decide, and then has changed nothing but the stored fence. Keys are in the short form of
-- plain.lua, ids are one line. No copy of a part of the rule: a shortcut of it. Needs fence.lua.
-- Answers: g granted with the clock as its fence, or + and by how much the fence is above the clock; = and the fence of a
-- renewed claim; - released.

local command, byte, sub = redis.call, string.byte, string.sub

-- When the lease ends, if the packed key is in the short form and held by this claim; else nil.
local function endIfHeldBy(packed, id)
  local idEnd = ID_FROM - 1 + #id
  if byte(packed) ~= PLAIN_MARK or sub(packed, ID_FROM, idEnd) ~= id or byte(packed, idEnd + 1) ~= 10 then return nil end
  return sub(packed, HEARTBEAT_FROM, HEARTBEAT_TO) + sub(packed, TTL_FROM, TTL_TO)
end

local function quickClaim(call, name, id, template)
  local fence, tag = call.fenceForAll, nil
  if fence == nil then
    fence = fenceForAll(call) or false
    call.fenceForAll = fence
  end
  if not fence then
    tag = sub(name, 1, call.tagEnd)
    fence = nextFence(call, tag)
  end
  if template.fence ~= fence then
    -- Records of one template and fence begin and end alike, and have the same answer: how far the fence is above the
    -- clock, all that the caller does not know.
    local nowText, above = call.nowText, fence - call.fenceFloor
    local numbers = 'L %016.0f %s %s %s %010.0f 00000000 '
    template.fence = fence
    template.recordStart = string.format(numbers, fence, nowText, nowText, nowText, template.ttl)
    template.recordEnd = template.recordEnd or '\n' .. call.channel .. '\n' .. template.runner
    template.answer = above == 0 and 'g' or string.format('+%.0f', above)
  end
  if tag then liftFence(call, tag, fence) end
  if command('SET', name, template.recordStart .. id .. template.recordEnd, 'NX', 'PX', template.recordTtl) then return template.answer end
  -- The fence was not used.
  if tag then call.fences[tag] = fence - 1 end
  return nil
end

local function quickRenew(call, name, id, template)
  local now, channel = call.now, call.channel
  -- Reads as far as the channel and writes only what changes: the runner stays as it is.
  template.channelEnd = template.channelEnd or tostring(ID_FROM + #id + #channel)
  local packed = command('GETRANGE', name, '0', template.channelEnd)
  local expiresAt = endIfHeldBy(packed, id)
  -- A renewal from another channel changes where the claim is notified: left to the rule.
  if not expiresAt or now >= expiresAt or sub(packed, ID_FROM + 1 + #id) ~= channel .. '\n' then return nil end
  local renewals = sub(packed, RENEWALS_FROM, RENEWALS_TO) + 1
  -- A damaged fence would be read as the answers of other requests.
  if string.find(packed, '^%d+ ', FENCE_FROM) ~= FENCE_FROM then return nil end
  -- If more than the ttl is left, the clock was set back: the rule cuts the lease.
  if expiresAt - now > tonumber(sub(packed, TTL_FROM, TTL_TO)) or renewals > RENEWALS_MAX then return nil end
  template.renewedPart = template.renewedPart or string.format('%s %010.0f ', call.nowText, template.ttl)
  command('SETRANGE', name, 'HEARTBEAT_OFFSET', template.renewedPart .. string.format('%08.0f', renewals))
  command('PEXPIRE', name, template.recordTtl)
  return '=' .. sub(packed, FENCE_FROM, FENCE_TO)
end

local function deleteReleased(call)
  if #call.released == 0 then return end
  command('DEL', unpack(call.released))
  call.released = {}
end

local function quickRelease(call, name, id, template)
  -- Reads only as far as the id: the runner is not needed.
  template.idEnd = template.idEnd or tostring(ID_FROM - 1 + #id)
  local expiresAt = endIfHeldBy(command('GETRANGE', name, '0', template.idEnd), id)
  if not expiresAt or call.now >= expiresAt then return nil end
  call.released[#call.released + 1] = name
  -- If no other request of this call is about its key, the record is deleted later, with others.
  if not call.apart then deleteReleased(call) end
  return '-'
end
