-- What solo.lua has found out so far, as call.lua has it for a batch.

local wallText = time[1] .. string.sub('00000' .. time[2], -6)
if ARGV[4] ~= '' then wallText = string.format('%.0f', now * 1000) end
local call = {
  now = now,
  wallMicroseconds = tonumber(wallText),
  wallText = wallText,
  tagEnd = tonumber(ARGV[3]),
  channel = ARGV[6],
  spareMs = tonumber(ARGV[5]),
  fences = {},
  storedFences = {},
}
if storedFence then
  local tag = string.sub(name, 1, call.tagEnd)
  call.storedFences[tag] = math.max(storedFence, call.wallMicroseconds)
  call.fences[tag] = math.max(storedFence, call.wallMicroseconds - 1)
end
