-- Carries out one request by the rule. Answers with its line, and with the notifications for others: channels and messages.
-- The last part of the rule, which is made only when a call needs it: it returns what the others are for.

local function newClaim(id, kind)
  local ttl = kind.ttl
  local record = {
    id, channel, kind.runner, ttl, now + ttl, now, 0, now, 0, 0,
    draft.head[LAST_ORDER] + 1, 0, kind.op == 'c', false, false, false, false, false, false, false,
    0, false, false, false, false,
  }
  if kind.terms ~= '' then
    local wishes = cjson.decode(kind.terms)
    record[PRIORITY], record[SHARED], record[LIMIT] = wishes[1], wishes[2], wishes[3]
    record[RANGE_START], record[RANGE_END], record[REPLACES] = wishes[4], wishes[5], wishes[6]
    record[EVICT], record[STALE] = wishes[7], wishes[8]
    record[GRACE], record[MAX_HOLD], record[DETACHED] = wishes[9], wishes[10], wishes[11]
  end
  return record
end

local function renewAs(id, kind)
  if kind.terms == '' then return renew(id, kind.ttl) end
  local wishes = cjson.decode(kind.terms)
  local detached = wishes[2]
  if detached == cjson.null then detached = nil end
  return renew(id, kind.ttl, wishes[1], detached)
end

return function(recordName, id, kind)
  if not load(recordName) then return 'x foreign', {} end
  beginDraft()
  local line
  if kind.op == 'd' then
    line = release(id)
  elseif kind.op == 'w' then
    line = withdraw(id)
  elseif kind.op == 'r' then
    line = renewAs(id, kind)
  elseif kind.op == 'e' then
    line = evictFence(tonumber(id), kind.terms)
  else
    line = claimPlace(newClaim(id, kind))
  end
  store()
  return line, draft.notifications
end

