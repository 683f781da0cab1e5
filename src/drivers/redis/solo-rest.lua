-- The rest of solo.lua: the request by the rule. Needs solo.lua, fences.lua and theRule.

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
  call.storedFences[tag] = call.wallMicroseconds
  call.fences[tag] = math.max(storedFence, call.wallMicroseconds - 1)
end
local kind = { op = op, ttl = tonumber(ARGV[7]), runner = ARGV[9], terms = '', life = ARGV[8] }
local line, news = theRule(call, fenceToCome, liftFence)(name, id, kind)
storeFences(call)
for _, one in ipairs(news) do
  redis.call('PUBLISH', one[1], one[2] .. '\n' .. string.sub(name, call.tagEnd + 3))
end
return line
