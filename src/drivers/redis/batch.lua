-- Carries out a batch of requests in order, each on one key.
-- KEYS: for each request the record of its key, PREFIX{TAG}k:KEY.
-- ARGV: what call.lua reads; then for each request two characters that number its kind in base 90, '!' for 0; how many kinds follow;
--   for each kind its op, ttl, runner and terms; then for each request the id of its claim or the fence to evict, all in
--   one JSON array.
--   Ops: c claims and waits, t claims and does not, r renews, d releases, e evicts. A runner is JSON, as are terms: what a
--   plain claim or renewal leaves out, or the reason to evict.
-- Returns: the clock in microseconds, then one line a request, as wire.ts reads them. News of other claims is published to
--   their owners' channels.
-- Needs call.lua, theRule and quick.lua.

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

local function quickly(recordName, id, kind)
  if kind.op == 'd' then return quickRelease(recordName, id) end
  if kind.terms ~= '' or #id > 255 then return nil end
  if kind.op == 'r' then return quickRenew(recordName, id, kind) end
  return quickClaim(recordName, id, kind)
end

local ids = cjson.decode(ARGV[kindsEnd + 1])
local numbers = ARGV[5]
local lines, publications = { string.format('%.0f', wallMicroseconds) }, {}
local byTheRule
for index, recordName in ipairs(KEYS) do
  local high, low = string.byte(numbers, 2 * index - 1, 2 * index)
  local id, kind = ids[index], kinds[(high - 33) * 90 + low - 32]
  local line = quickly(recordName, id, kind)
  if not line then
    -- Made at the first need: to make its many functions takes longer than most calls.
    byTheRule = byTheRule or theRule()
    local news
    line, news = byTheRule(recordName, id, kind)
    for _, one in ipairs(news) do
      publications[#publications + 1] = { one[1], one[2] .. '\n' .. string.sub(recordName, tagEnd + 3) }
    end
  end
  lines[index + 1] = line
end
storeFences()
for _, publication in ipairs(publications) do redis.call('PUBLISH', publication[1], publication[2]) end
return table.concat(lines, '\n')
