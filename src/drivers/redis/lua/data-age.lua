-- Since when the data of a hash tag has been kept.
-- KEYS: its birth, PREFIX{TAG}birth: the time in ms of this server's clock, a space, and the id of the replication history
--   that the data is part of. Kept with the data, it is lost with the data.
-- Returns: the age in ms, as text.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local uptime = string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%-?%d+)')
-- Another one after each restart, and when a replica becomes the primary.
local history = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local born, known = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%x+)$')
-- Nobody knows how old data is whose birth is missing, is of another history, or is still to come: it begins now.
if not born or known ~= history or tonumber(born) > now then
  born = now
  redis.call('SET', KEYS[1], string.format('%.0f %s', now, history))
end
-- Below 0 after the clock was set back.
return string.format('%.0f', math.max(0, math.min(now - born, uptime * 1000)))
