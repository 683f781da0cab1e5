-- The rest of solo.lua: the request by the rule. Needs solo-call.lua, fences.lua, news.lua and theRule.

local line, news = theRule(call, fenceToCome, liftFence, refuseIfHalfMoved)(name, id, kind)
for _, one in ipairs(news) do one[2] = one[2] .. '\n' .. string.sub(name, call.tagEnd + 3) end
return tellAll(call.channel, line, news)
