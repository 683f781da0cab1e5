-- Tells the owners of claims what has become of them.

-- Whether an unpacked record is that of a waiter whose time can be judged, and who can be told.
local function isWaiter(record)
  return type(record) == 'table' and type(record[ID]) == 'string' and type(record[CHANNEL]) == 'string'
    and type(record[TTL]) == 'number' and type(record[EXPIRES_AT]) == 'number' and type(record[ENTERED_AT]) == 'number'
    and type(record[HEARTBEAT]) == 'number' and type(record[ORDER]) == 'number' and type(record[PRIORITY]) == 'number'
end

-- Publishes each of `notifications`, channels and messages, and answers with `reply`. What is for the caller itself is answered
-- with it, where the caller would notice the loss of a reply as it does that of a message.
local function notifyAll(channel, reply, notifications)
  local answer = reply
  for _, one in ipairs(notifications) do
    if NEWS_IN_REPLY == 1 and one[1] == channel then
      if answer == reply then answer = { reply } end
      answer[#answer + 1] = one[2]
    else
      redis.call('PUBLISH', one[1], one[2])
    end
  end
  return answer
end
