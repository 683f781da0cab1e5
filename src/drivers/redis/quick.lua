-- What can be told without running the rule: a plain claim on a key that is free, and its renewal and release while
-- nobody waits. Each answers nil where the rule must decide, and then has changed nothing but the clock's share of a
-- fence. Keys are in the short form of plain.lua: numbers up to byte 57, the id from byte 59. Needs fences.lua.

-- Whether a packed key is in the short form and held by this claim, and its lease not over. Answers with its end.
local function plainlyHeld(packed, id, now)
  if not packed or string.byte(packed) ~= 80 or string.byte(packed, 58) ~= #id then return nil end
  if string.find(packed, id, 59, true) ~= 59 then return nil end
  local expiresAt = struct.unpack('>d', packed, 2)
  return now < expiresAt and expiresAt or nil
end

local function quickClaim(call, name, id, kind)
  local now, ttl = call.now, kind.ttl
  if not kind.start then
    -- What the short records of all claims of a kind begin and end with.
    kind.start = 'P' .. struct.pack('>dddddd', now + ttl, ttl, now, 0, now, now)
    kind.texts = struct.pack('>Bc0I4c0', #call.channel, call.channel, #kind.runner, kind.runner)
  end
  local tag = string.sub(name, 1, call.tagEnd)
  local fence = fenceToCome(call, tag)
  local packed = kind.start .. struct.pack('>dB', fence, #id) .. id .. kind.texts
  if not redis.call('SET', name, packed, 'NX', 'PX', kind.life) then return nil end
  liftFence(call, tag, fence)
  -- All that the asker does not know is the fence, and most differ little from the clock.
  local above = fence - call.wallMicroseconds
  return above == 0 and 'g 0' or string.format('g %.0f', above)
end

local function quickRenew(call, name, id, kind)
  local now, channel = call.now, call.channel
  local packed = redis.call('GET', name)
  local expiresAt = plainlyHeld(packed, id, now)
  -- Renewed through another channel, its owner has changed: the rule stamps the new one.
  if not expiresAt or string.find(packed, channel, 60 + #id, true) ~= 60 + #id then return nil end
  local _, ttl, _, renewals, enteredAt, acquiredAt, fence = struct.unpack('>ddddddd', packed, 2)
  if expiresAt - now > ttl then return nil end
  ttl = kind.ttl
  local numbers = struct.pack('>ddddddd', now + ttl, ttl, now, renewals + 1, enteredAt, acquiredAt, fence)
  redis.call('SET', name, 'P' .. numbers .. string.sub(packed, 58), 'PX', kind.life)
  return string.format('h %.0f %.0f', fence, ttl)
end

local function quickRelease(call, name, id, kind)
  -- Only as far as the id: what is known of its runner need not be read.
  kind.idEnd = kind.idEnd or tostring(58 + #id)
  if not plainlyHeld(redis.call('GETRANGE', name, '0', kind.idEnd), id, call.now) then return nil end
  redis.call('DEL', name)
  return 'a released'
end
