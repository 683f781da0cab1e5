-- Carries out one plain request that comes by itself, as most do: without the detours that many at once are worth.
-- KEYS: the record of its key, PREFIX{TAG}k:KEY.
-- ARGV: op, as in batch.lua; the name of the fence of its hash tag; what a record in the form of plain.lua has from the
--   id on, without the runner unless it is a claim. Then of a release where that ends in a record; of others how long the
--   record is kept in ms, and the ttl in ten digits. From a test also ms to keep keys beyond their end, and its clock in
--   ms.
-- Returns: the fence if a claim got what it asked for, - if one was released, else a line as decoding.ts reads them; and
--   notifications as notifications.lua has it.
-- The first part of its script: what it cannot notify, contended.lua does or, by the rule, solo-rest.lua.

local op, fenceName, text, name = ARGV[1], ARGV[2], ARGV[3], KEYS[1]
local time = redis.call('TIME')
local seconds, microseconds = time[1], time[2]
if ARGV[7] then seconds, microseconds = string.match(string.format('%016.0f', ARGV[7] * 1000), '(.*)(......)$') end
-- The fence of the hash tag, if that has been asked: what it was, and what it is now.
local fenceBefore, fenceNow

if op == 'd' then
  -- What is known of its runner need not be read.
  local packed = redis.call('GETRANGE', name, '0', ARGV[4])
  -- In the form of plain.lua, 76 is its L, and its lease not over.
  if string.byte(packed) == 76 and string.sub(packed, 82) == text
    and seconds * 1000 + microseconds / 1000 - string.sub(packed, 48, 60) < tonumber(string.sub(packed, 62, 71)) then
    redis.call('DEL', name)
    return '-'
  end
elseif op ~= 'r' then
  -- Texts, as far as possible: to print a number of this size takes as long as a command.
  local wallText = seconds .. (#microseconds == 6 and microseconds or string.sub('00000' .. microseconds, -6))
  -- As fenceToCome in fences.lua has it, which is left to notify why there is none, or no more, or one past the clock.
  fenceBefore = redis.call('SET', fenceName, wallText, 'GET')
  fenceNow = wallText
  -- Of what is no number, nan included, nothing is known but that the wall clock is past it.
  if fenceBefore and not string.find(fenceBefore, '^%d+$') then fenceBefore = '0' end
  if not fenceBefore then
    redis.call('DEL', fenceName)
  elseif fenceBefore - wallText < 0 then
    local nowText = string.sub(wallText, 1, 13)
    -- In one step: to put texts of this length together again is as expensive as a command.
    local packed = 'L ' .. wallText .. ' ' .. nowText .. ' ' .. nowText .. ' ' .. nowText .. ' ' .. ARGV[5]
      .. ' 00000000 ' .. text
    if redis.call('SET', name, packed, 'NX', 'PX', ARGV[4]) then return wallText end
  else
    -- Not even for the length of this call may a clock that is behind lower it: the call may end in an error.
    redis.call('SET', fenceName, fenceBefore)
    fenceNow = fenceBefore
  end
end
