-- What solo.lua has found out so far, as the table that call.lua makes for a batch.

local id, channel, runner = string.match(text, '^([^\n]*)\n([^\n]*)\n(.*)$')
local wallText = seconds .. string.sub('00000' .. microseconds, -6)
local nowText = string.sub(wallText, 1, TIME_DIGITS)
local now = tonumber(nowText)
local call = {
  now = now,
  nowText = nowText,
  fenceFloor = tonumber(wallText),
  fenceFloorText = wallText,
  tagEnd = #fenceName - #'fence',
  channel = channel,
  spareMs = tonumber(ARGV[6] or '0'),
  fences = {},
  storedFences = {},
  spareFences = {},
}
local template = { op = op, ttl = tonumber(ARGV[5]), runner = runner, terms = '', recordTtl = ARGV[4] }
if fenceBefore then
  local tag = string.sub(name, 1, call.tagEnd)
  call.storedFences[tag] = tonumber(fenceNow)
  call.fences[tag] = math.max(tonumber(fenceBefore), call.fenceFloor - 1)
end
