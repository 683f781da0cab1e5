-- What solo.lua has found out so far, as call.lua has it for a batch.

local id, channel, runner = string.match(text, '^([^\n]*)\n([^\n]*)\n(.*)$')
local wallText = seconds .. string.sub('00000' .. microseconds, -6)
local nowText = string.sub(wallText, 1, 13)
local now = tonumber(nowText)
local call = {
  now = now,
  nowText = nowText,
  wallMicroseconds = tonumber(wallText),
  wallText = wallText,
  tagEnd = #fenceName - 5,
  channel = channel,
  spareMs = tonumber(ARGV[6] or '0'),
  fences = {},
  storedFences = {},
  spareFences = {},
}
local kind = { op = op, ttl = tonumber(ARGV[5]), runner = runner, terms = '', life = ARGV[4] }
if fenceBefore then
  local tag = string.sub(name, 1, call.tagEnd)
  call.storedFences[tag] = tonumber(fenceNow)
  call.fences[tag] = math.max(tonumber(fenceBefore), call.wallMicroseconds - 1)
end
