import type { Mutants } from './mutant.ts'

const lua = (name: string): string => `src/drivers/redis/lua/${name}.lua`
const contract = ['integration/redis-edges', 'integration/redis-contract > redis keeps the contract'] as const
const lifetimes = ['integration/redis-lifetimes'] as const
const edges = ['integration/redis-edges', 'integration/redis-batches'] as const

/** Redis: the rule in Lua, its fast paths, and how long the server keeps its keys. */
export const redis: Mutants = {
  'Redis: a record is kept without its grace and ttl': {
    file: lua('key-state'),
    find: 'horizon = math.max(horizon, holder[EXPIRES_AT] + holder[GRACE] + holder[TTL])',
    replace: 'horizon = math.max(horizon, holder[EXPIRES_AT])',
    foundBy: lifetimes,
  },
  'Redis: a contended record is kept without its grace and ttl': {
    file: lua('contended'),
    find: 'local horizon = math.max(head[WAITERS_UNTIL], holder[EXPIRES_AT] + holder[GRACE] + holder[TTL])',
    replace: 'local horizon = holder[EXPIRES_AT]',
    foundBy: lifetimes,
  },
  'Redis: the waiters’ hash is not kept alive by the rule': {
    file: lua('key-state'),
    find: "    redis.call('PEXPIRE', draft.waitersName, rest)\n",
    replace: '',
    foundBy: lifetimes,
  },
  'Redis: the waiters’ hash is not kept alive by the shortcut': {
    file: lua('contended'),
    find: "          redis.call('PEXPIRE', waitersName, recordTtl)\n",
    replace:
      "          if redis.call('PTTL', waitersName) < 0 then redis.call('PEXPIRE', waitersName, recordTtl) end\n",
    foundBy: lifetimes,
  },
  'Redis: a waiter that renews does not keep the queue': {
    file: lua('key-state'),
    find: '      keep = keepWaiters(waiter) or keep\n',
    replace: '      keepWaiters(waiter)\n',
    foundBy: lifetimes,
  },
  'Redis: a plain record is kept for its ttl only': {
    file: 'src/drivers/redis/request-templates.ts',
    find: 'return String(Math.ceil(2 * ttlMs) + spareMs)',
    replace: 'return String(Math.ceil(ttlMs) + spareMs)',
    foundBy: lifetimes,
  },
  'Redis: a renewal does not keep the record for longer': {
    file: lua('quick'),
    find: "  command('PEXPIRE', name, template.recordTtl)\n",
    replace: '',
    foundBy: lifetimes,
  },
  'Redis: the end of many holders is not kept': {
    file: lua('key-state'),
    find: '    horizon = math.max(horizon, draft.head[HOLDERS_UNTIL])\n',
    replace: '',
    foundBy: ['integration/redis-holders > keeps each of its keys', ...lifetimes],
  },
  'Redis: a fence is given before it is stored': {
    file: lua('fence'),
    find: "    redis.call('SET', tag .. 'fence', string.format('%.0f', stored))\n",
    replace: '',
    foundBy: ['integration/redis-fences', ...contract],
  },
  'Redis: the fence falls to a clock that is behind': {
    file: lua('fence'),
    find: "  if last > clock then redis.call('SET', name, stored) end\n",
    replace: '',
    foundBy: ['integration/redis-faults > fence counter', 'integration/redis-fences'],
  },
  'Redis: the fence floor of the clock is not applied': {
    file: lua('fence'),
    find: "local last = math.max(tonumber(stored or '0'), clock - 1)",
    replace: "local last = tonumber(stored or '0')",
    foundBy: ['integration/redis-fences', ...contract],
  },
  'Redis: one fence for a batch though a counter is past the clock': {
    file: lua('fence'),
    find: '    if stored and not (tonumber(stored) and tonumber(stored) < clock) then return nil end\n',
    replace: '',
    foundBy: ['integration/redis-batches', 'integration/redis-fences'],
  },
  'Redis: spare fences are not given back': {
    file: lua('fence'),
    find: "  if lowered[1] then redis.call('MSET', unpack(lowered)) end\n",
    replace: '',
    foundBy: ['integration/redis-batches', 'integration/redis-fences', ...contract],
  },
  'Redis: a single claim lowers a fence that is past the clock': {
    file: lua('solo'),
    find: "    redis.call('SET', fenceName, fenceBefore)\n",
    replace: '',
    foundBy: ['integration/redis-fences', ...contract],
  },
  'Redis: a batch renews at the exact end': {
    file: lua('quick'),
    find: 'if not expiresAt or now >= expiresAt or sub(packed',
    replace: 'if not expiresAt or now > expiresAt or sub(packed',
    foundBy: edges,
  },
  'Redis: a batch releases at the exact end as one in time': {
    file: lua('quick'),
    find: 'if not expiresAt or call.now >= expiresAt then return nil end',
    replace: 'if not expiresAt or call.now > expiresAt then return nil end',
    foundBy: edges,
  },
  'Redis: a single release at the exact end is one in time': {
    file: lua('solo'),
    find: '      < tonumber(string.sub(packed, TTL_FROM, TTL_TO)) then',
    replace: '      <= tonumber(string.sub(packed, TTL_FROM, TTL_TO)) then',
    foundBy: edges,
  },
  'Redis: a renewal that steals: any id renews': {
    file: lua('quick'),
    find: 'if byte(packed) ~= PLAIN_MARK or sub(packed, ID_FROM, idEnd) ~= id or byte(packed, idEnd + 1) ~= 10 then return nil end',
    replace: 'if byte(packed) ~= PLAIN_MARK or byte(packed, idEnd + 1) ~= 10 then return nil end',
    foundBy: edges,
  },
  'Redis: a release without owner: any id of that length releases': {
    file: lua('solo'),
    find: 'if string.byte(packed) == PLAIN_MARK and string.sub(packed, ID_FROM) == text\n',
    replace: 'if string.byte(packed) == PLAIN_MARK\n',
    foundBy: edges,
  },
  'Redis: a near miss: an id that begins another renews its claim': {
    file: lua('quick'),
    find: 'sub(packed, ID_FROM, idEnd) ~= id or byte(packed, idEnd + 1) ~= 10 then',
    replace: 'sub(packed, ID_FROM, idEnd) ~= id then',
    foundBy: edges,
  },
  'Redis: a lease from a time to come is renewed uncut': {
    file: lua('quick'),
    find: 'if expiresAt - now > tonumber(sub(packed, TTL_FROM, TTL_TO)) or renewals > RENEWALS_MAX then return nil end',
    replace: 'if renewals > RENEWALS_MAX then return nil end',
    foundBy: edges,
  },
  'Redis: an expired first waiter is promoted': {
    file: lua('contended'),
    find: 'if known and isWaiter(waiter) and now < waiter[EXPIRES_AT] and waiter[EXPIRES_AT] - now',
    replace: 'if known and isWaiter(waiter) and waiter[EXPIRES_AT] - now',
    foundBy: contract,
  },
  'Redis: a hand-over forgets the longest hold of the next': {
    file: lua('contended'),
    find: ' and not waiter[REPLACES] and not waiter[MAX_HOLD] then',
    replace: ' and not waiter[REPLACES] then',
    foundBy: contract,
  },
  'Redis: a hand-over forgets an unclean end': {
    file: lua('contended'),
    find: 'head[WAITERS_UNTIL] > 0 and not head[ENDED] and #head[HOLDERS] == 1 then',
    replace: 'head[WAITERS_UNTIL] > 0 and #head[HOLDERS] == 1 then',
    foundBy: contract,
  },
  'Redis: a claim queues up behind a holder that is over': {
    file: lua('contended'),
    find: 'local holds = now < holder[EXPIRES_AT] and holder[EXPIRES_AT] - now <= holder[TTL]',
    replace: 'local holds = holder[EXPIRES_AT] - now <= holder[TTL]',
    foundBy: contract,
  },
  'Redis: who queues up is not told of a grace': {
    file: lua('contended'),
    find: 'math.min(ttl, holder[EXPIRES_AT] + holder[GRACE] - now)',
    replace: 'math.min(ttl, holder[EXPIRES_AT] - now)',
    foundBy: contract,
    equivalent:
      'The shortcut is for keys that have waiters, so a newcomer is first in its queue only if somebody has deleted that by hand. Its next poll is answered by the rule.',
  },
  'Redis: over-granted permits': {
    file: lua('conflict'),
    find: "if claim[LIMIT] and sharing >= claim[LIMIT] then return 'none' end",
    replace: "if claim[LIMIT] and sharing > claim[LIMIT] then return 'none' end",
    foundBy: contract,
  },
  'Redis: a grace does not block': {
    file: lua('draft'),
    find: 'if now >= holder[EXPIRES_AT] + holder[GRACE] then',
    replace: 'if now >= holder[EXPIRES_AT] then',
    foundBy: contract,
  },
  'Redis: data is as old as its birth though another history has begun': {
    file: lua('data-age'),
    find: 'if not born or known ~= history or tonumber(born) > now then',
    replace: 'if not born or tonumber(born) > now then',
    foundBy: ['integration/redis-data-age'],
  },
  'Redis: data may be older than the server is up': {
    file: lua('data-age'),
    find: 'math.min(now - born, uptime * 1000)',
    replace: 'now - born',
    foundBy: ['integration/redis-data-age'],
    equivalent:
      'A server that starts has another history than before, so its data is born again: `known ~= history` says the same of every start. The uptime is a second guard.',
  },
}
