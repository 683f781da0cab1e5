-- Carries out one plain request that comes by itself, as most do: without the detours that many at once are worth.
-- KEYS: the record of its key, PREFIX{TAG}k:KEY.
-- ARGV: op, as in batch.lua; the id of its claim, of less than 256 bytes; where the hash tag ends in the key; a test's
--   clock in ms, or empty; ms to keep keys beyond their end; the caller's channel; and but for a release: ttl, how long
--   the record is kept in ms, and a claim's runner.
-- Returns: one line, as decoding.ts reads them, and news as news.lua has it.
-- The first part of its script: what it cannot tell, contended.lua does or, by the rule, solo-rest.lua.

local op, id, name = ARGV[1], ARGV[2], KEYS[1]
local time = redis.call('TIME')
local now = ARGV[4] == '' and time[1] * 1000 + math.floor(time[2] / 1000) or tonumber(ARGV[4])
-- What the fence of the key's hash tag was, if that has been asked.
local storedFence, wallMicroseconds

if op == 'd' then
  -- Only as far as the id: what is known of its runner need not be read.
  local packed = redis.call('GETRANGE', name, 0, 58 + #id)
  if string.byte(packed) == 80 and string.byte(packed, 58) == #id and string.sub(packed, 59, 58 + #id) == id
    and now < struct.unpack('>d', packed, 2) then
    redis.call('DEL', name)
    return 'a released'
  end
elseif op ~= 'r' then
  local ttl, runner, channel = tonumber(ARGV[7]), ARGV[9], ARGV[6]
  local wallText = time[1] .. string.sub('00000' .. time[2], -6)
  if ARGV[4] ~= '' then wallText = string.format('%.0f', now * 1000) end
  wallMicroseconds = tonumber(wallText)
  local fenceName = string.sub(name, 1, ARGV[3]) .. 'fence'
  -- As fenceToCome in fences.lua has it, which is left to tell why there is none, or no more.
  local stored = redis.call('SET', fenceName, wallText, 'GET')
  storedFence = stored and tonumber(stored)
  if storedFence and storedFence > wallMicroseconds then redis.call('SET', fenceName, stored) end
  local isAhead = storedFence and storedFence < wallMicroseconds
  local fence = isAhead and wallMicroseconds or storedFence and storedFence + 1
  if not fence then
    redis.call('DEL', fenceName)
  elseif fence <= 9007199254740991 then
    -- 80 is the P of plain.lua, packed with the rest: to put texts of this length together again is as dear as a command.
    local packed = struct.pack(
      '>BdddddddBc0Bc0I4c0',
      80, now + ttl, ttl, now, 0, now, now, fence, #id, id, #channel, channel, #runner, runner
    )
    if redis.call('SET', name, packed, 'NX', 'PX', ARGV[8]) then
      if isAhead then return 'h ' .. wallText .. ' ' .. ARGV[7] end
      local fenceText = string.format('%.0f', fence)
      redis.call('SET', fenceName, fenceText)
      return 'h ' .. fenceText .. ' ' .. ARGV[7]
    end
  end
end
