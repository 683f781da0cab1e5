-- Reads keys and the first of their claims, for people and tools.
-- KEYS: the records, PREFIX{TAG}k:KEY. ARGV: as call.lua reads it, then the most claims of a key, the most claims of the
--   answer, and the id of a claim that is shown in any case, or empty.
-- Returns: the time in ms, then for each of KEYS how many hold, how many wait, and an array of claims, holders first, each an
--   array of texts as claim-record.lua numbers them, empty where absent; or the text "foreign" for a record of a newer
--   version, or "unread" once the answer has its claims.
-- No copy of a part of the rule. Needs call.lua, claim-record.lua and plain.lua.

local claimsMax, roomLeft, known = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]

local function shown(record)
  local texts = {}
  for field = 1, LEAVING do
    local value = record[field]
    texts[field] = type(value) == 'number' and string.format('%.17g', value) or value and tostring(value) or ''
  end
  return texts
end

-- The first claims of a sorted set of ids, as many as there is room for, after those of `claims`.
local function addFirst(claims, order, records)
  local room = claimsMax - #claims
  if room <= 0 then return end
  for _, id in ipairs(redis.call('ZRANGE', order, 0, room - 1)) do
    local record = redis.call('HGET', records, id)
    if record then claims[#claims + 1] = shown(cmsgpack.unpack(record)) end
  end
end

-- Adds the known claim, if there was no room for it.
local function addKnown(claims, records)
  if known == '' then return end
  for _, claim in ipairs(claims) do if claim[ID] == known then return end end
  local record = redis.call('HGET', records, known)
  if record then claims[#claims + 1] = shown(cmsgpack.unpack(record)) end
end

local function claimsOf(name)
  local packed = redis.call('GET', name)
  if not packed then return { 0, 0, {} } end
  local head = unpackKey(packed)
  if not head then return 'foreign' end
  local claims, held, waiting = {}, #head[HOLDERS], 0
  for _, holder in ipairs(head[HOLDERS]) do
    if #claims < claimsMax or holder[ID] == known then claims[#claims + 1] = shown(holder) end
  end
  local hash, _, _, grants = holderKeys(name)
  if head[TALLIES] then
    held = held + redis.call('ZCARD', grants)
    addFirst(claims, grants, hash)
  end
  local queueName, waitersName = waiterKeys(name)
  if head[WAITERS_UNTIL] ~= 0 then
    waiting = redis.call('ZCARD', queueName)
    addFirst(claims, queueName, waitersName)
  end
  if held + waiting > #claims then
    if head[TALLIES] then addKnown(claims, hash) end
    if waiting > 0 then addKnown(claims, waitersName) end
  end
  return { held, waiting, claims }
end

local answer = { string.format('%.0f', now) }
for index, name in ipairs(KEYS) do
  if roomLeft <= 0 then
    answer[index + 1] = 'unread'
  else
    local readable, listed = pcall(claimsOf, name)
    answer[index + 1] = readable and listed or 'foreign'
    if readable and listed ~= 'foreign' then roomLeft = roomLeft - math.max(1, #listed[3]) end
  end
end
return answer
