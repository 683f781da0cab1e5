-- What can be told without running the rule: a plain claim on a key that is free, and its renewal and release while
-- nobody waits. Each answers nil where the rule must decide, and then has changed nothing. Needs call.lua; plain.lua describes the short form.

-- Answers to claims that were granted at once, by how far their fence is above the clock.
local grantLines = {}
-- Where an id ends in the short form, as text, by its length.
local idEnds = {}

-- Whether a packed key is in the short form and held by this claim, and its lease not over. Answers with its end.
local function plainlyHeld(packed, id)
  if not packed or string.byte(packed) ~= 80 or string.byte(packed, PLAIN_TEXTS_AT) ~= #id then return nil end
  if string.find(packed, id, PLAIN_ID_AT, true) ~= PLAIN_ID_AT then return nil end
  local expiresAt = struct.unpack('>d', packed, 2)
  return now < expiresAt and expiresAt or nil
end

local function quickClaim(recordName, id, kind)
  local tag = string.sub(recordName, 1, tagEnd)
  local fence = fenceToCome(tag)
  local packed = kind.start .. struct.pack('>dB', fence, #id) .. id .. kind.texts
  if not redis.call('SET', recordName, packed, 'NX', 'PX', kind.life) then return nil end
  liftFence(tag, fence)
  -- All that the asker does not know is the fence, and most differ little from the clock.
  local above = fence - wallMicroseconds
  local line = grantLines[above]
  if not line then
    line = string.format('g %.0f', above)
    grantLines[above] = line
  end
  return line
end

local function quickRenew(recordName, id, kind)
  local packed = redis.call('GET', recordName)
  local expiresAt = plainlyHeld(packed, id)
  local channelAt = PLAIN_ID_AT + #id + 1
  -- Renewed through another channel, its owner has changed: the rule stamps the new one.
  if not expiresAt or string.find(packed, channel, channelAt, true) ~= channelAt then return nil end
  local _, ttl, _, renewals, enteredAt, acquiredAt, fence = struct.unpack(PLAIN_NUMBERS, packed, 2)
  if expiresAt - now > ttl then return nil end
  ttl = kind.ttl
  local numbers = struct.pack(PLAIN_NUMBERS, now + ttl, ttl, now, renewals + 1, enteredAt, acquiredAt, fence)
  local renewed = 'P' .. numbers .. string.sub(packed, PLAIN_TEXTS_AT)
  redis.call('SET', recordName, renewed, 'PX', kind.life)
  return string.format('h %.0f %.0f', fence, ttl)
end

local function quickRelease(recordName, id)
  -- Only as far as the id: what is known of its runner need not be read.
  local idEnd = idEnds[#id] or tostring(PLAIN_TEXTS_AT + #id)
  idEnds[#id] = idEnd
  if not plainlyHeld(redis.call('GETRANGE', recordName, '0', idEnd), id) then return nil end
  redis.call('DEL', recordName)
  return 'a released'
end
