-- What all parts of one call share: its clock, the calling driver, and the fences. No copy of a part of the rule.
-- ARGV: where the hash tag ends in each of KEYS; the caller's channel; a test's clock in ms, or empty; ms to keep keys
--   beyond their end; …

local time = redis.call('TIME')
-- The wall clock in microseconds as text: to print a number of this size takes as long as a command.
local wallText = time[1] .. string.sub('00000' .. time[2], -6)
if ARGV[3] ~= '' then wallText = string.format('%016.0f', ARGV[3] * 1000) end
local call = {
  now = tonumber(string.sub(wallText, 1, TIME_DIGITS)),
  nowText = string.sub(wallText, 1, TIME_DIGITS),
  -- As in KeyView: the wall clock in microseconds.
  fenceFloor = tonumber(wallText),
  fenceFloorText = wallText,
  tagEnd = tonumber(ARGV[1]),
  channel = ARGV[2],
  spareMs = tonumber(ARGV[4]),
  -- The last fence of each hash tag as this call has it, and as Redis has it.
  fences = {},
  storedFences = {},
  -- The hash tags whose stored fence is higher than the last one this call minted.
  spareFences = {},
  -- Records that are to be deleted, all at once.
  released = {},
}
