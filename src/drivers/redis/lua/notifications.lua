-- Notifies the drivers of other claims. No copy of a part of the rule.

-- Whether an unpacked record is that of a waiter: with the times to judge it, and a channel to notify.
local function isWaiter(record)
  return type(record) == 'table' and type(record[ID]) == 'string' and type(record[CHANNEL]) == 'string'
    and type(record[TTL]) == 'number' and type(record[EXPIRES_AT]) == 'number' and type(record[ENTERED_AT]) == 'number'
    and type(record[HEARTBEAT]) == 'number' and type(record[ORDER]) == 'number' and type(record[PRIORITY]) == 'number'
end

-- Publishes `notifications`, pairs of channel and message, and returns the reply. Those for the caller itself come with
-- the reply, if the caller would notice the loss of a reply as it would that of a message.
local function notifyAll(channel, reply, notifications)
  local answer = reply
  for _, notification in ipairs(notifications) do
    if NOTIFICATIONS_IN_REPLY == 1 and notification[1] == channel then
      if answer == reply then answer = { reply } end
      answer[#answer + 1] = notification[2]
    else
      redis.call('PUBLISH', notification[1], notification[2])
    end
  end
  return answer
end
