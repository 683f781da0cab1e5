-- Runs one command, or none, unless a later holder has been here.
-- KEYS: where the fence is kept, then the keys that the command writes.
-- ARGV: the fence, then the command and its arguments.
-- Returns: { 1, the command's reply }, or { 0, the fence that was seen }.
local seen = redis.call('GET', KEYS[1])
-- Fences stay below 2^53, so numbers hold them exactly.
if seen and tonumber(seen) > tonumber(ARGV[1]) then
  return { 0, seen }
end
if seen ~= ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1])
end
if not ARGV[2] then return { 1 } end
return { 1, redis.call(unpack(ARGV, 2)) }
