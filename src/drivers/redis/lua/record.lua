-- What is stored of a key, as arrays packed with cmsgpack. Absent is false: nil would end an array.
-- Most keys are stored shorter: see plain.lua.

-- A claim, held or waiting. Times are milliseconds of this server's clock; runner is JSON that only clients read.
local ID, CHANNEL, RUNNER, TTL, EXPIRES_AT = 1, 2, 3, 4, 5
local HEARTBEAT, RENEWALS, ENTERED_AT, ACQUIRED_AT, FENCE = 6, 7, 8, 9, 10
local ORDER, PRIORITY, WAIT, SHARED, LIMIT = 11, 12, 13, 14, 15
local RANGE_START, RANGE_END, REPLACES, EVICT, STALE = 16, 17, 18, 19, 20
local GRACE, MAX_HOLD, DETACHED, LEAVING, AFTER = 21, 22, 23, 24, 25

-- A key. WAITERS_UNTIL is 0 when nobody waits, else no earlier than the last waiter's end.
local VERSION, LAST_ORDER, WAITERS_UNTIL, ENDED, HOLDERS = 1, 2, 3, 4, 5

-- The last unclean end of a key: for its owner, and for the next to be granted.
local ENDED_ID, ENDED_HOW, ENDED_DETAIL, ENDED_FENCE = 1, 2, 3, 4
local ENDED_RUNNER, ENDED_UNTIL, ENDED_TOLD = 5, 6, 7

-- The keys that hold the waiters of a key: their order, and their records by id.
-- A record's name is PREFIX{TAG}k:KEY.
local function waiterKeys(name)
  local tag, rest = string.sub(name, 1, tagEnd), string.sub(name, tagEnd + 2)
  return tag .. 'q' .. rest, tag .. 'w' .. rest
end
