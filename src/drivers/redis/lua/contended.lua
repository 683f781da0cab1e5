-- The two most common requests on a key with waiters, as a shortcut of the rule: a plain claim queues up, or the holder
-- releases and the first waiter is granted. Whatever is not plain is left to the rule, and nothing has been changed then.
-- Needs solo-call.lua, fence.lua and notifications.lua. On a cluster all is left to the rule, which knows of migrating slots.

if ON_CLUSTER == 0 and (op == 'c' or op == 'd') then
  local packed = redis.call('GET', name)
  local readable, head = false, nil
  if packed and string.byte(packed) == ARRAY_MARK then readable, head = pcall(cmsgpack.unpack, packed) end
  if readable and head[VERSION] == FORMAT_VERSION and head[WAITERS_UNTIL] > 0 and not head[ENDED] and #head[HOLDERS] == 1 then
    local holder, tag, rest = head[HOLDERS][1], string.sub(name, 1, call.tagEnd), string.sub(name, call.tagEnd + 2)
    local queueName, waitersName = tag .. 'q' .. rest, tag .. 'w' .. rest

    -- Keeps the key for as long as storeHead in key-state.lua does.
    local function storeContended()
      local horizon = math.max(head[WAITERS_UNTIL], holder[EXPIRES_AT] + holder[GRACE] + holder[TTL])
      local recordTtl = string.format('%.0f', math.max(1, math.ceil(horizon - now)) + call.spareMs)
      redis.call('SET', name, cmsgpack.pack(head), 'PX', recordTtl)
    end

    local holds = now < holder[EXPIRES_AT] and holder[EXPIRES_AT] - now <= holder[TTL]
    if op == 'd' and holds and holder[ID] == id then
      -- Read two: the last waiter takes the queue with it, and that is left to the rule.
      local first = redis.call('ZRANGE', queueName, 0, 1)
      local waiter = first[2] and redis.call('HGET', waitersName, first[1])
      local known
      if waiter then known, waiter = pcall(cmsgpack.unpack, waiter) end
      if known and isWaiter(waiter) and now < waiter[EXPIRES_AT] and waiter[EXPIRES_AT] - now <= waiter[TTL]
        and not waiter[SHARED] and not waiter[RANGE_START] and not waiter[REPLACES] and not waiter[MAX_HOLD] then
        local fence = nextFence(call, tag)
        liftFence(call, tag, fence)
        waiter[FENCE], waiter[ACQUIRED_AT] = fence, now
        holder = waiter
        head[HOLDERS] = { waiter }
        storeContended()
        redis.call('ZREM', queueName, waiter[ID])
        redis.call('HDEL', waitersName, waiter[ID])
        local line = string.format('h %.0f %.0f\n', fence, math.floor(waiter[EXPIRES_AT] - now))
        return notifyAll(channel, 'a released', {
          { waiter[CHANNEL], line .. waiter[ID] .. '\n' .. string.sub(rest, 2) },
        })
      end
    elseif op == 'c' and holds and holder[ID] ~= id and not holder[SHARED] and not holder[RANGE_START] then
      local ttl, order = template.ttl, head[LAST_ORDER] + 1
      local waiter = {
        id, channel, runner, ttl, now + ttl, now, 0, now, 0, 0,
        order, 0, true, false, false, false, false, false, false, false,
        0, false, false, false, false,
      }
      -- A claim that is sent twice is stored already.
      if redis.call('HSETNX', waitersName, id, cmsgpack.pack(waiter)) == 1 then
        -- As rankOf in claim-record.lua ranks a plain claim.
        redis.call('ZADD', queueName, string.format('%.0f', PLAIN_CLASS * CLASS_WEIGHT + order), id)
        head[LAST_ORDER] = order
        if now + ttl > head[WAITERS_UNTIL] then
          head[WAITERS_UNTIL] = now + 2 * ttl
          local recordTtl = string.format('%.0f', math.max(1, math.ceil(2 * ttl)) + call.spareMs)
          redis.call('PEXPIRE', queueName, recordTtl)
          redis.call('PEXPIRE', waitersName, recordTtl)
        end
        storeContended()
        local ahead = redis.call('ZRANK', queueName, id)
        local again = ttl
        if ahead == 0 then again = math.max(1, math.min(ttl, holder[EXPIRES_AT] + holder[GRACE] - now)) end
        return string.format('w %d %.0f %.0f', ahead, ttl, again)
      end
    end
  end
end
