-- What can be told without running the rule: a plain claim on a key that is free, and its renewal and release while
-- nobody waits. Each answers nil where the rule must decide, and then has changed nothing but the clock's share of a
-- fence. Keys are in the short form of plain.lua, ids are one line. Needs fences.lua.
-- Answers: g granted with the clock as its fence, or + and by how much the fence is above that; = and the fence renewed,
-- - released.

local command, byte, sub = redis.call, string.byte, string.sub

-- When a lease ends, if a packed key is in the short form and held by this claim; else nil. The claim's channel follows.
local function endIfHeldBy(packed, id)
  local idEnd = 81 + #id
  if byte(packed) ~= 76 or sub(packed, 82, idEnd) ~= id or byte(packed, idEnd + 1) ~= 10 then return nil end
  return sub(packed, 48, 60) + sub(packed, 62, 71)
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
  if kind.fence ~= fence then
    -- What the records of all claims of a kind with one fence begin and end with, and their answer: all that the asker
    -- does not know is the fence, and most differ little from the clock.
    local nowText, above = call.nowText, fence - call.wallMicroseconds
    local numbers = 'L %016.0f %s %s %s %010.0f 00000000 '
    kind.fence = fence
    kind.start = string.format(numbers, fence, nowText, nowText, nowText, kind.ttl)
    kind.texts = kind.texts or '\n' .. call.channel .. '\n' .. kind.runner
    kind.answer = above == 0 and 'g' or string.format('+%.0f', above)
  end
  if tag then liftFence(call, tag, fence) end
  if command('SET', name, kind.start .. id .. kind.texts, 'NX', 'PX', kind.life) then return kind.answer end
  -- Nobody was given it.
  if tag then call.fences[tag] = fence - 1 end
  return nil
end

local function quickRenew(call, name, id, kind)
  local now, channel = call.now, call.channel
  -- As far as the channel, and only what changes is written: what is known of its runner stays as it is.
  kind.channelEnd = kind.channelEnd or tostring(82 + #id + #channel)
  local packed = command('GETRANGE', name, '0', kind.channelEnd)
  local expiresAt = endIfHeldBy(packed, id)
  -- Renewed through another channel, its owner has changed: the rule stamps the new one.
  if not expiresAt or now >= expiresAt or sub(packed, 83 + #id) ~= channel .. '\n' then return nil end
  -- One that is longer than it was asked for is of a clock that has been set back; the rule cuts it.
  local renewals = sub(packed, 73, 80) + 1
  -- What is no fence would be read as the answers of other requests.
  if string.find(packed, '^%d+ ', 3) ~= 3 then return nil end
  if expiresAt - now > tonumber(sub(packed, 62, 71)) or renewals > 99999999 then return nil end
  kind.beat = kind.beat or string.format('%s %010.0f ', call.nowText, kind.ttl)
  command('SETRANGE', name, '47', kind.beat .. string.format('%08.0f', renewals))
  command('PEXPIRE', name, kind.life)
  return '=' .. sub(packed, 3, 18)
end

local function deleteReleased(call)
  if #call.released == 0 then return end
  command('DEL', unpack(call.released))
  call.released = {}
end

local function quickRelease(call, name, id, kind)
  -- Only as far as the id: what is known of its runner need not be read.
  kind.idEnd = kind.idEnd or tostring(81 + #id)
  local expiresAt = endIfHeldBy(command('GETRANGE', name, '0', kind.idEnd), id)
  if not expiresAt or call.now >= expiresAt then return nil end
  call.released[#call.released + 1] = name
  -- Later, with others, if no other request of this call is about its key.
  if not call.apart then deleteReleased(call) end
  return '-'
end
