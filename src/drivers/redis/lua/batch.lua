-- Carries out a batch of requests in order, each on one key.
-- KEYS: for each request the record of its key, PREFIX{TAG}k:KEY.
-- ARGV: what call.lua reads; '1' if no key comes twice, and then the hash tags of all plain claims, one after the other;
--   how many kinds of requests there are; for each kind its op, ttl, runner, terms, and how long its records are kept in
--   ms; of several kinds, for each request two characters that number its kind in base 90, '!' for 0; then the length
--   of the ids, or 0; then for each request the id of its claim or the fence to evict, all in one text: one after the
--   other if they are of that length, else as a JSON array.
--   Ops: c claims and waits, t claims and does not, r renews, d releases, w withdraws, e evicts. A runner is JSON, as are terms:
--   what a plain claim or renewal leaves out, or the reason to evict.
-- Returns: the clock in microseconds, a space, then one answer a request, as decoding.ts reads them, and notifications as notifications.lua
--   has it. Short answers are as quick.lua has them; others are a line each, e and the error for a request that failed.
-- Needs call.lua, fences.lua, notifications.lua, theRule and quick.lua.

call.apart, call.claimTags = ARGV[5] == '1', ARGV[6]

local kinds = {}
local kindsEnd = 7 + 5 * ARGV[7]
for at = 8, kindsEnd, 5 do
  local op, ttl, terms = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 3]
  local plain = terms == '' and ttl % 1 == 0 and ttl < 10000000000
  local quick = op == 'd' and quickRelease or op == 'r' and plain and quickRenew
  if (op == 'c' or op == 't') and plain then quick = quickClaim end
  local runner, life = ARGV[at + 2], ARGV[at + 4]
  kinds[#kinds + 1] = { op = op, ttl = ttl, runner = runner, terms = terms, life = life, quick = quick }
end

local numbers, idLength, idsText = ARGV[kindsEnd + 1], tonumber(ARGV[kindsEnd + 2]), ARGV[kindsEnd + 3]
local ids = idLength == 0 and cjson.decode(idsText)
local idsAreLines = not ids and not string.find(idsText, '\n', 1, true)
local answers, allNews = { call.wallText .. ' ' }, {}
local byTheRule
local index = 0

-- Begins with the request after `index`. What it needs for each it has as variables of its own: others are slower.
local function carryOutRest(call, kinds, ids, numbers, answers)
  local byte, sub, find, keys, kind = string.byte, string.sub, string.find, KEYS, kinds[1]
  for at = index + 1, #keys do
    index = at
    local name = keys[at]
    if numbers ~= '' then
      local high, low = byte(numbers, 2 * at - 1, 2 * at)
      kind = kinds[(high - 33) * 90 + low - 32]
    end
    -- In a full memory, what comes after this may fail.
    if kind.op ~= 'd' and call.released[1] then deleteReleased(call) end
    local id = ids and ids[at] or sub(idsText, (at - 1) * idLength + 1, at * idLength)
    local isLine = idsAreLines or not find(id, '\n', 1, true)
    local answer = kind.quick and isLine and kind.quick(call, name, id, kind)
    if not answer then
      deleteReleased(call)
      byTheRule = byTheRule or theRule(call, fenceToCome, liftFence, refuseIfHalfMoved)
      local line, notifications = byTheRule(name, id, kind)
      answer = line .. '\n'
      for _, one in ipairs(notifications) do
        allNews[#allNews + 1] = { one[1], one[2] .. '\n' .. sub(name, call.tagEnd + 3) }
      end
    end
    answers[at + 1] = answer
  end
end

-- An error ends the request that has met it, and no other: its key may be somebody else's, its record unreadable.
repeat
  local done, problem = pcall(carryOutRest, call, kinds, ids, numbers, answers)
  if not done then
    -- Those are answered already: if they fail, so does the whole call.
    deleteReleased(call)
    local text = type(problem) == 'table' and problem.err or tostring(problem)
    answers[index + 1] = 'e ' .. string.gsub(text, '%c', ' ') .. '\n'
  end
until done
deleteReleased(call)
dropSpareFences(call)
return notifyAll(call.channel, table.concat(answers), allNews)
