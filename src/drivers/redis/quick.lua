-- What can be told without running the rule: a plain claim on a key that is free, and its renewal and release while
-- nobody waits. Each answers nil where the rule must decide, and then has changed nothing. Needs plain.lua and key.lua.

-- How long a key in the short form is kept: see storeHead.
local function plainLife(request)
  local life = request.life
  if not life then
    life = string.format('%.0f', 2 * request.ttl + spareMs)
    request.life = life
  end
  return life
end

-- Whether a packed key is in the short form and held by this claim, and its lease not over. Answers with its end.
local function plainlyHeld(packed, id)
  if not packed or string.byte(packed) ~= 80 then return nil end
  local ends = PLAIN_ID_AT + #id - 1
  if string.byte(packed, PLAIN_TEXTS_AT) ~= #id or string.sub(packed, PLAIN_ID_AT, ends) ~= id then return nil end
  local expiresAt = struct.unpack('>d', packed, 2)
  return now < expiresAt and expiresAt or nil
end

local function quickClaim(recordName, id, request)
  local texts = request.texts
  tag = string.sub(recordName, 1, tagEnd)
  local fence = fenceToCome()
  local ttl = request.ttl
  local numbers = struct.pack(PLAIN_NUMBERS, now + ttl, ttl, now, 0, now, now, fence)
  local packed = 'P' .. numbers .. struct.pack('>Bc0', #id, id) .. texts
  if not redis.call('SET', recordName, packed, 'NX', 'PX', plainLife(request)) then return nil end
  liftFence(fence)
  return string.format('h %.0f %.0f', fence, ttl)
end

local function quickRenew(recordName, id, request)
  local packed = redis.call('GET', recordName)
  local expiresAt = plainlyHeld(packed, id)
  -- Renewed through another channel, its owner has changed: the rule stamps the new one.
  if not expiresAt or string.sub(packed, PLAIN_ID_AT + #id + 1, PLAIN_ID_AT + #id + #channel) ~= channel then return nil end
  local _, ttl, _, renewals, enteredAt, acquiredAt, fence = struct.unpack(PLAIN_NUMBERS, packed, 2)
  if expiresAt - now > ttl then return nil end
  ttl = request.ttl
  local numbers = struct.pack(PLAIN_NUMBERS, now + ttl, ttl, now, renewals + 1, enteredAt, acquiredAt, fence)
  local renewed = 'P' .. numbers .. string.sub(packed, PLAIN_TEXTS_AT)
  redis.call('SET', recordName, renewed, 'PX', plainLife(request))
  return string.format('h %.0f %.0f', fence, ttl)
end

local function quickRelease(recordName, id)
  if not plainlyHeld(redis.call('GET', recordName), id) then return nil end
  redis.call('DEL', recordName)
  return 'a released'
end
