-- Carries out a batch of requests in order, each on one key.
-- KEYS: for each request the record of its key, PREFIX{TAG}k:KEY.
-- ARGV: where the hash tag ends in each of KEYS; the caller's channel; a test's clock in ms, or empty; ms to keep keys
--   beyond their end; for each request two characters that number its kind in base 90, '!' for 0; how many kinds follow;
--   for each kind its op, ttl, runner and terms; then for each request the id of its claim or the fence to evict, all in
--   one JSON array.
--   Ops: c claims and waits, t claims and does not, r renews, d releases, e evicts. A runner is JSON, as are terms: what a
--   plain claim or renewal leaves out, or the reason to evict.
-- Returns: the clock in microseconds, then one line a request, as wire.ts reads them. News of other claims is published to
--   their owners' channels.
-- Needs admission.lua, quick.lua and all that those need.

local time = redis.call('TIME')
now = milliseconds(time, ARGV[3])
wallMicroseconds = ARGV[3] == '' and time[1] * 1000000 + time[2] or now * 1000
tagEnd, channel, spareMs = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[4])

local kinds = {}
local kindsEnd = 6 + 4 * ARGV[6]
for at = 7, kindsEnd, 4 do
  local ttl, runner = tonumber(ARGV[at + 1]), ARGV[at + 2]
  kinds[#kinds + 1] = {
    op = ARGV[at], ttl = ttl, runner = runner, terms = ARGV[at + 3],
    -- What the short records of all claims of a kind begin and end with, and how long they are kept.
    start = 'P' .. struct.pack('>dddddd', now + ttl, ttl, now, 0, now, now),
    texts = struct.pack('>Bc0I4c0', #channel, channel, #runner, runner),
    life = string.format('%.0f', 2 * ttl + spareMs),
  }
end

local function newClaim(id, kind)
  local ttl = kind.ttl
  local record = {
    id, channel, kind.runner, ttl, now + ttl, now, 0, now, 0, 0,
    head[LAST_ORDER] + 1, 0, kind.op == 'c', false, false, false, false, false, false, false,
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

local function quickly(recordName, id, kind)
  if kind.op == 'd' then return quickRelease(recordName, id) end
  if kind.terms ~= '' or #id > 255 then return nil end
  if kind.op == 'r' then return quickRenew(recordName, id, kind) end
  return quickClaim(recordName, id, kind)
end

local function byTheRule(recordName, id, kind)
  if not load(recordName) then return 'x foreign' end
  beginDraft()
  local line
  if kind.op == 'd' then
    line = release(id)
  elseif kind.op == 'r' then
    line = renewAs(id, kind)
  elseif kind.op == 'e' then
    line = evictFence(tonumber(id), kind.terms)
  else
    line = claimPlace(newClaim(id, kind))
  end
  store()
  return line
end

local ids = cjson.decode(ARGV[kindsEnd + 1])
local numbers = ARGV[5]
local lines, publications = { string.format('%.0f', wallMicroseconds) }, {}
for index, recordName in ipairs(KEYS) do
  local high, low = string.byte(numbers, 2 * index - 1, 2 * index)
  local id, kind = ids[index], kinds[(high - 33) * 90 + low - 32]
  local line = quickly(recordName, id, kind)
  if not line then
    line = byTheRule(recordName, id, kind)
    for _, one in ipairs(news) do
      publications[#publications + 1] = { one[1], one[2] .. '\n' .. string.sub(recordName, tagEnd + 3) }
    end
  end
  lines[index + 1] = line
end
storeFences()
for _, publication in ipairs(publications) do redis.call('PUBLISH', publication[1], publication[2]) end
return table.concat(lines, '\n')
