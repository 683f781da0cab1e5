-- The rest of solo.lua: the request by the rule. Needs solo-call.lua, fence.lua, notifications.lua and theRule.

local line, notifications = theRule(call, nextFence, liftFence, refuseIfMigrating)(name, id, template)
for _, notification in ipairs(notifications) do
  notification[2] = notification[2] .. '\n' .. string.sub(name, call.tagEnd + 3)
end
return notifyAll(call.channel, line, notifications)
