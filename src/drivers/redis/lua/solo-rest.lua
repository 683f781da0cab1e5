-- The rest of solo.lua: the request by the rule. Needs solo-call.lua, fences.lua, notifications.lua and theRule.

local line, notifications = theRule(call, fenceToCome, liftFence, refuseIfHalfMoved)(name, id, kind)
for _, one in ipairs(notifications) do one[2] = one[2] .. '\n' .. string.sub(name, call.tagEnd + 3) end
return notifyAll(call.channel, line, notifications)
