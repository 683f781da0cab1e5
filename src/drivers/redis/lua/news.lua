-- Tells the owners of claims what has become of them.

-- Publishes each of `news`, channels and messages, and answers with `reply`. What is for the caller itself is answered
-- with it, where the caller would notice the loss of a reply as it does that of a message.
local function tellAll(channel, reply, news)
  local answer = reply
  for _, one in ipairs(news) do
    if NEWS_IN_REPLY == 1 and one[1] == channel then
      if answer == reply then answer = { reply } end
      answer[#answer + 1] = one[2]
    else
      redis.call('PUBLISH', one[1], one[2])
    end
  end
  return answer
end
