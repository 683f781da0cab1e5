-- Reads keys whole, for people and tools.
-- KEYS: the records, PREFIX{TAG}k:KEY. ARGV: as call.lua reads it.
-- Returns: the time in ms, then for each of KEYS an array of claims, holders first, each an array of texts as
--   claim-record.lua numbers them, empty where absent; or the text "foreign" for a record of a newer version.
-- No copy of a part of the rule. Needs call.lua, claim-record.lua and plain.lua.

local function shown(record)
  local texts = {}
  for field = 1, LEAVING do
    local value = record[field]
    texts[field] = type(value) == 'number' and string.format('%.17g', value) or value and tostring(value) or ''
  end
  return texts
end

local function claimsOf(name)
  local packed = redis.call('GET', name)
  if not packed then return {} end
  local head = unpackKey(packed)
  if not head then return 'foreign' end
  local claims = {}
  for _, holder in ipairs(head[HOLDERS]) do claims[#claims + 1] = shown(holder) end
  if head[WAITERS_UNTIL] == 0 then return claims end
  local queueName, waitersName = waiterKeys(name)
  for _, id in ipairs(redis.call('ZRANGE', queueName, 0, -1)) do
    local waiter = redis.call('HGET', waitersName, id)
    if waiter then claims[#claims + 1] = shown(cmsgpack.unpack(waiter)) end
  end
  return claims
end

local answer = { string.format('%.0f', now) }
for index, name in ipairs(KEYS) do
  local readable, claims = pcall(claimsOf, name)
  answer[index + 1] = readable and claims or 'foreign'
end
return answer
