-- Carries out a single plain request, as most are: without the detours that are worth while for many at once. No copy of a
-- part of the rule: a shortcut of it.
-- KEYS: the record of its key, PREFIX{TAG}k:KEY.
-- ARGV: op, as in batch.lua; the name of the fence of its hash tag; what a record in the form of plain.lua has from the
--   id on, without the runner unless it is a claim. Then for a release where that ends in a record; for others for how
--   many ms the record is kept, and the ttl in ten digits. From a test also for how many ms to keep keys beyond their end,
--   and its clock in ms.
-- Returns: the fence if a claim was granted, - if a claim was released, else a line as decoding.ts reads them; notifications
--   as notifications.lua returns them.
-- The first part of its script: what it cannot answer, contended.lua does or, by the rule, solo-rest.lua.

local op, fenceName, text, name = ARGV[1], ARGV[2], ARGV[3], KEYS[1]
local time = redis.call('TIME')
local seconds, microseconds = time[1], time[2]
if ARGV[7] then seconds, microseconds = string.match(string.format('%016.0f', ARGV[7] * 1000), '(.*)(......)$') end
-- The fence of the hash tag, if it has been read: as it was, and as it is now.
local fenceBefore, fenceNow

if op == 'd' then
  -- The runner is not needed.
  local packed = redis.call('GETRANGE', name, '0', ARGV[4])
  -- Released here if the record is in the form of plain.lua and its lease not over.
  if string.byte(packed) == PLAIN_MARK and string.sub(packed, ID_FROM) == text
    and seconds * 1000 + microseconds / 1000 - string.sub(packed, HEARTBEAT_FROM, HEARTBEAT_TO)
      < tonumber(string.sub(packed, TTL_FROM, TTL_TO)) then
    redis.call('DEL', name)
    return '-'
  end
elseif op ~= 'r' then
  -- Texts, as far as possible: to print a number of this size takes as long as a command.
  local wallText = seconds .. (#microseconds == 6 and microseconds or string.sub('00000' .. microseconds, -6))
  -- As nextFence in fence.lua does, which also deals with a fence that is missing, past the clock, or the last.
  fenceBefore = redis.call('SET', fenceName, wallText, 'GET')
  fenceNow = wallText
  -- If the stored text is no number, nan included, only the wall clock counts.
  if fenceBefore and not string.find(fenceBefore, '^%d+$') then fenceBefore = '0' end
  if not fenceBefore then
    redis.call('DEL', fenceName)
  elseif fenceBefore - wallText < 0 then
    local nowText = string.sub(wallText, 1, TIME_DIGITS)
    -- In one step: to put texts of this length together again is as expensive as a command.
    local packed = 'L ' .. wallText .. ' ' .. nowText .. ' ' .. nowText .. ' ' .. nowText .. ' ' .. ARGV[5]
      .. ' 00000000 ' .. text
    if redis.call('SET', name, packed, 'NX', 'PX', ARGV[4]) then return wallText end
  else
    -- A clock that is behind must not lower the fence, not even during this call: the call may end in an error.
    redis.call('SET', fenceName, fenceBefore)
    fenceNow = fenceBefore
  end
end
