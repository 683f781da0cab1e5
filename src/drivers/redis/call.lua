-- What all parts of one call share: its clock, who calls, and the fences.
-- ARGV: where the hash tag ends in each of KEYS; the caller's channel; a test's clock in ms, or empty; ms to keep keys
--   beyond their end; …

local time = redis.call('TIME')
local call = {
  now = time[1] * 1000 + math.floor(time[2] / 1000),
  wallMicroseconds = time[1] * 1000000 + time[2],
  -- The same as text: to print a number of this size takes as long as a command.
  wallText = time[1] .. string.sub('00000' .. time[2], -6),
  tagEnd = tonumber(ARGV[1]),
  channel = ARGV[2],
  spareMs = tonumber(ARGV[4]),
  -- The last fence of each hash tag as this call has it, and as Redis has it.
  fences = {},
  storedFences = {},
  -- Records that are to be deleted, all at once.
  released = {},
}
if ARGV[3] ~= '' then
  call.now = tonumber(ARGV[3])
  call.wallMicroseconds = call.now * 1000
  call.wallText = string.format('%.0f', call.wallMicroseconds)
end
