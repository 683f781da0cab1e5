-- Carries out a batch of requests in order, each on one key.
-- KEYS: for each request the record of its key, PREFIX{TAG}k:KEY.
-- ARGV: what call.lua reads; then for each request two characters that number its kind in base 90, '!' for 0; how many
--   kinds follow; for each kind its op, ttl, runner, terms, and how long its records are kept in ms; then the length
--   of the ids, or 0; then for each request the id of its claim or the fence to evict, all in one text: one after the
--   other if they are of that length, else as a JSON array.
--   Ops: c claims and waits, t claims and does not, r renews, d releases, e evicts. A runner is JSON, as are terms:
--   what a plain claim or renewal leaves out, or the reason to evict.
-- Returns: the clock in microseconds, then one line a request, as wire.ts reads them, and news as news.lua has it.
-- Needs call.lua, fences.lua, news.lua, theRule and quick.lua.

local kinds = {}
local kindsEnd = 6 + 5 * ARGV[6]
for at = 7, kindsEnd, 5 do
  local op, terms = ARGV[at], ARGV[at + 3]
  local quick = op == 'd' and quickRelease or terms == '' and (op == 'r' and quickRenew or quickClaim)
  local ttl, runner, life = tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 4]
  kinds[#kinds + 1] = { op = op, ttl = ttl, runner = runner, terms = terms, life = life, quick = quick }
end

local idLength, idsText = tonumber(ARGV[kindsEnd + 1]), ARGV[kindsEnd + 2]
local ids = idLength == 0 and cjson.decode(idsText)
local numbers = ARGV[5]
local lines, allNews = { call.wallText }, {}
local byTheRule
for index, name in ipairs(KEYS) do
  local high, low = string.byte(numbers, 2 * index - 1, 2 * index)
  local id = ids and ids[index] or string.sub(idsText, (index - 1) * idLength + 1, index * idLength)
  local kind = kinds[(high - 33) * 90 + low - 32]
  local line = kind.quick and #id < 256 and kind.quick(call, name, id, kind)
  if not line then
    byTheRule = byTheRule or theRule(call, fenceToCome, liftFence, refuseIfHalfMoved)
    local news
    line, news = byTheRule(name, id, kind)
    for _, one in ipairs(news) do
      allNews[#allNews + 1] = { one[1], one[2] .. '\n' .. string.sub(name, call.tagEnd + 3) }
    end
  end
  lines[index + 1] = line
end
storeFences(call)
return tellAll(call.channel, table.concat(lines, '\n'), allNews)
