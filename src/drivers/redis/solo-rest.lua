-- The rest of solo.lua: the request by the rule. Needs solo-call.lua, fences.lua, news.lua and theRule.

local kind = { op = op, ttl = tonumber(ARGV[7]), runner = ARGV[9], terms = '', life = ARGV[8] }
local line, news = theRule(call, fenceToCome, liftFence, refuseIfHalfMoved)(name, id, kind)
storeFences(call)
for _, one in ipairs(news) do one[2] = one[2] .. '\n' .. string.sub(name, call.tagEnd + 3) end
return tellAll(call.channel, line, news)
