-- Carries out a batch of requests in order, each on one key.
-- KEYS: for each request the record of its key, PREFIX{TAG}k:KEY.
-- ARGV: where the hash tag ends in each of KEYS; the caller's channel; a test's clock in ms, or empty; ms to keep keys
--   beyond their end; how many runners follow; the runners, as JSON; then for each request one of
--   c ID TTL RUNNER TERMS (waits) · t ID TTL RUNNER TERMS (does not wait) · r ID TTL TERMS · d ID · e FENCE REASON
-- Returns: one line a request, as wire.ts reads them. News of other claims is published to their owners' channels.
-- Needs admission.lua and all that needs.

local channel = ARGV[2]
local time = redis.call('TIME')
now = milliseconds(time, ARGV[3])
wallMicroseconds = ARGV[3] == '' and time[1] * 1000000 + time[2] or now * 1000
tagEnd, spareMs = tonumber(ARGV[1]), tonumber(ARGV[4])
local runnersEnd = 5 + ARGV[5]
local at = runnersEnd

local function newClaim(waits)
  local id, ttl, runner, terms = ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[5 + ARGV[at + 3]], ARGV[at + 4]
  at = at + 4
  local record = {
    id, channel, runner, ttl, now + ttl, now, 0, now, 0, 0,
    head[LAST_ORDER] + 1, 0, waits, false, false, false, false, false, false, false,
    0, false, false, false, false,
  }
  if terms ~= '' then
    local wishes = cjson.decode(terms)
    record[PRIORITY], record[SHARED], record[LIMIT] = wishes[1], wishes[2], wishes[3]
    record[RANGE_START], record[RANGE_END], record[REPLACES] = wishes[4], wishes[5], wishes[6]
    record[EVICT], record[STALE] = wishes[7], wishes[8]
    record[GRACE], record[MAX_HOLD], record[DETACHED] = wishes[9], wishes[10], wishes[11]
  end
  return record
end

local function newRenewal()
  local id, ttl, terms = ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3]
  at = at + 3
  if terms == '' then return id, ttl, nil, nil, channel end
  local wishes = cjson.decode(terms)
  local detached = wishes[2]
  if detached == cjson.null then detached = nil end
  return id, ttl, wishes[1], detached, channel
end

local argumentsOf = { c = 4, t = 4, r = 3, d = 1, e = 2 }

local function carryOut(recordName)
  at = at + 1
  local op = ARGV[at]
  if not load(recordName) then
    at = at + argumentsOf[op]
    return 'x foreign'
  end
  beginDraft()
  local line
  if op == 'd' then
    at = at + 1
    line = release(ARGV[at])
  elseif op == 'r' then
    line = renew(newRenewal())
  elseif op == 'e' then
    at = at + 2
    line = evictFence(tonumber(ARGV[at - 1]), ARGV[at])
  else
    line = claimPlace(newClaim(op == 'c'))
  end
  store()
  return line
end

local lines = {}
local publications = {}
for index, recordName in ipairs(KEYS) do
  lines[index] = carryOut(recordName)
  for _, one in ipairs(news) do
    publications[#publications + 1] = { one[1], one[2] .. '\n' .. string.sub(recordName, tagEnd + 3) }
  end
end
storeFences()
for _, publication in ipairs(publications) do redis.call('PUBLISH', publication[1], publication[2]) end
return table.concat(lines, '\n')
