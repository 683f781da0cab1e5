-- What can be told without running the rule: a plain claim on a key that is free, and its renewal and release while
-- nobody waits. Each answers nil where the rule must decide, and then has changed nothing but the clock's share of a
-- fence. Keys are in the short form of plain.lua: numbers up to byte 57, the id from byte 59. Needs fences.lua.
-- Answers: g granted with the clock as its fence, or + and by how much the fence is above that; = and the fence renewed,
-- - released.

local command, byte, sub, pack, unpackNumbers = redis.call, string.byte, string.sub, struct.pack, struct.unpack

-- Whether a packed key is in the short form and held by this claim, and its lease not over. Answers with its end.
local function plainlyHeld(packed, id, now)
  if not packed or #packed < 58 + #id then return nil end
  local form, expiresAt = unpackNumbers('>Bd', packed)
  if form ~= 80 or now >= expiresAt or byte(packed, 58) ~= #id or sub(packed, 59, 58 + #id) ~= id then return nil end
  return expiresAt
end

local function quickClaim(call, name, id, kind)
  local fence, tag = call.fenceForAll, nil
  if fence == nil then
    fence = fenceForAll(call) or false
    call.fenceForAll = fence
  end
  if not fence then
    tag = sub(name, 1, call.tagEnd)
    fence = fenceToCome(call, tag)
  end
  if kind.fence ~= fence or kind.idLength ~= #id then
    -- What the short records of all claims of a kind with one fence begin and end with, and their answer: all that the
    -- asker does not know is the fence, and most differ little from the clock.
    local now, ttl, channel, runner = call.now, kind.ttl, call.channel, kind.runner
    local above = fence - call.wallMicroseconds
    kind.fence, kind.idLength = fence, #id
    kind.start = pack('>BdddddddB', 80, now + ttl, ttl, now, 0, now, now, fence, #id)
    kind.texts = kind.texts or pack('>Bc0I4c0', #channel, channel, #runner, runner)
    kind.answer = above == 0 and 'g' or string.format('+%.0f', above)
  end
  if not command('SET', name, kind.start .. id .. kind.texts, 'NX', 'PX', kind.life) then return nil end
  if tag then liftFence(call, tag, fence) end
  return kind.answer
end

local function quickRenew(call, name, id, kind)
  local now, ttl, channel = call.now, kind.ttl, call.channel
  -- As far as the channel, and only what changes is written: what is known of its runner stays as it is.
  kind.channelEnd = kind.channelEnd or tostring(58 + #id + #channel)
  local packed = command('GETRANGE', name, '0', kind.channelEnd)
  local expiresAt = plainlyHeld(packed, id, now)
  -- Renewed through another channel, its owner has changed: the rule stamps the new one.
  if not expiresAt or sub(packed, 60 + #id) ~= channel then return nil end
  local _, ttlBefore, _, renewals, _, _, fence = unpackNumbers('>ddddddd', packed, 2)
  if expiresAt - now > ttlBefore then return nil end
  command('SETRANGE', name, '1', pack('>dddd', now + ttl, ttl, now, renewals + 1))
  command('PEXPIRE', name, kind.life)
  return string.format('=%.0f', fence)
end

local function deleteReleased(call)
  if #call.released == 0 then return end
  command('DEL', unpack(call.released))
  call.released = {}
end

local function quickRelease(call, name, id, kind)
  -- Only as far as the id: what is known of its runner need not be read.
  kind.idEnd = kind.idEnd or tostring(58 + #id)
  if not plainlyHeld(command('GETRANGE', name, '0', kind.idEnd), id, call.now) then return nil end
  call.released[#call.released + 1] = name
  -- Later, with others, if no other request of this call is about its key.
  if not call.apart then deleteReleased(call) end
  return '-'
end
