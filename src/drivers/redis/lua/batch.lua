-- Carries out a batch of requests in order, each on one key.
-- KEYS: for each request the record of its key, PREFIX{TAG}k:KEY.
-- ARGV: what call.lua reads; '1' if no key comes twice, and then the hash tags of all plain claims, one after the other;
--   how many request templates there are (request-templates.ts); for each its op, ttl, runner, terms, and for how many ms
--   its records are kept; if there are several, for each request two characters that number its template in base 90, '!'
--   for 0; then the length of the ids, or 0; then for each request the id of its claim or the fence to evict, all in one
--   text: one after the other if they are of that length, else as a JSON array.
--   Ops: c claims and waits, t claims and does not, r renews, d releases, w withdraws, e evicts. Runner and terms are
--   JSON. Terms are what a plain claim or renewal leaves out, or the reason to evict.
-- Returns: the clock in microseconds, a space, then an answer for each request, as decoding.ts reads them; notifications as
--   notifications.lua returns them. Short answers are those of quick.lua; others are a line each, e and the error for a
--   request that failed.
-- No copy of a part of the rule. Needs call.lua, fence.lua, notifications.lua, theRule and quick.lua.

-- ARGV that does not depend on the number of templates, and how many of ARGV a template takes.
local ARGV_APART, ARGV_CLAIM_TAGS, ARGV_TEMPLATE_COUNT, TEMPLATE_FIELDS = 5, 6, 7, 5
-- The numbers of templates: their base, and the character code of the digit 0.
local DIGIT_BASE, DIGIT_ZERO = 90, 33

call.apart, call.claimTags = ARGV[ARGV_APART] == '1', ARGV[ARGV_CLAIM_TAGS]

local templates = {}
local templatesEnd = ARGV_TEMPLATE_COUNT + TEMPLATE_FIELDS * ARGV[ARGV_TEMPLATE_COUNT]
for at = ARGV_TEMPLATE_COUNT + 1, templatesEnd, TEMPLATE_FIELDS do
  local op, ttl, terms = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 3]
  local plain = terms == '' and ttl % 1 == 0 and ttl <= TTL_MAX
  local quick = op == 'd' and quickRelease or op == 'r' and plain and quickRenew
  if (op == 'c' or op == 't') and plain then quick = quickClaim end
  local runner, recordTtl = ARGV[at + 2], ARGV[at + 4]
  templates[#templates + 1] = {
    op = op, ttl = ttl, runner = runner, terms = terms, recordTtl = recordTtl, quick = quick,
  }
end

local numbers, idLength, idsText = ARGV[templatesEnd + 1], tonumber(ARGV[templatesEnd + 2]), ARGV[templatesEnd + 3]
local ids = idLength == 0 and cjson.decode(idsText)
local idsAreLines = not ids and not string.find(idsText, '\n', 1, true)
local answers, allNotifications = { call.fenceFloorText .. ' ' }, {}
local byTheRule
local index = 0

-- Begins with the request after `index`. Its own locals shadow those around it: upvalues are slower.
local function carryOutRest(call, templates, ids, numbers, answers)
  local byte, sub, find, keys, template = string.byte, string.sub, string.find, KEYS, templates[1]
  for at = index + 1, #keys do
    index = at
    local name = keys[at]
    if numbers ~= '' then
      local high, low = byte(numbers, 2 * at - 1, 2 * at)
      template = templates[(high - DIGIT_ZERO) * DIGIT_BASE + low - (DIGIT_ZERO - 1)]
    end
    -- Delete first: if the memory is full, the next write may fail.
    if template.op ~= 'd' and call.released[1] then deleteReleased(call) end
    local id = ids and ids[at] or sub(idsText, (at - 1) * idLength + 1, at * idLength)
    local isLine = idsAreLines or not find(id, '\n', 1, true)
    local answer = template.quick and isLine and template.quick(call, name, id, template)
    if not answer then
      deleteReleased(call)
      byTheRule = byTheRule or theRule(call, nextFence, liftFence, refuseIfMigrating)
      local line, notifications = byTheRule(name, id, template)
      answer = line .. '\n'
      for _, notification in ipairs(notifications) do
        local key = sub(name, call.tagEnd + 3)
        allNotifications[#allNotifications + 1] = { notification[1], notification[2] .. '\n' .. key }
      end
    end
    answers[at + 1] = answer
  end
end

-- An error ends only the request that met it: its key may be another program's, its record unreadable.
repeat
  local done, problem = pcall(carryOutRest, call, templates, ids, numbers, answers)
  if not done then
    -- These releases are answered already: if the deletion fails, so does the whole call.
    deleteReleased(call)
    local text = type(problem) == 'table' and problem.err or tostring(problem)
    answers[index + 1] = 'e ' .. string.gsub(text, '%c', ' ') .. '\n'
  end
until done
deleteReleased(call)
dropSpareFences(call)
return notifyAll(call.channel, table.concat(answers), allNotifications)
