import type { Mutants } from './mutant.ts'

const sql = (name: string): string => `src/drivers/postgres/functions/${name}.sql`
const contract = ['integration/postgres > postgres keeps the contract'] as const
const commits = ['integration/postgres-commits'] as const
const batches = ['integration/postgres-edges', ...contract] as const

/** PostgreSQL: the rule in SQL, and its fast paths. */
export const postgres: Mutants = {
  'PostgreSQL: the clock is read before the row is locked': {
    file: sql('admission'),
    find: '  draft.now_ms := draft.fence_floor / 1000;\n',
    replace: '  draft.now_ms := extract(epoch from statement_timestamp()) * 1000;\n',
    foundBy: commits,
  },
  'PostgreSQL: a hand-over reads the clock before the row is locked': {
    file: sql('contended'),
    find: '  now_us := extract(epoch from leasehold.clock()) * 1000000;\n  now_ms := now_us / 1000;\n  minted',
    replace: '  now_us := extract(epoch from statement_timestamp()) * 1000000;\n  now_ms := now_us / 1000;\n  minted',
    foundBy: commits,
  },
  'PostgreSQL: a lone claim is committed asynchronously': {
    file: sql('send'),
    find: "if minted is not null then return json_build_object('fence', minted",
    replace:
      "if minted is not null then perform set_config('synchronous_commit', 'off', true); return json_build_object('fence', minted",
    foundBy: commits,
  },
  'PostgreSQL: a grant by the rule is committed asynchronously': {
    file: sql('admission'),
    find: "and draft.status ->> 'state' = 'waiting' and request.fence is null;",
    replace: 'and request.fence is null;',
    foundBy: commits,
  },
  'PostgreSQL: a waiter that let another in is committed asynchronously': {
    file: sql('admission'),
    find: 'loose := cardinality(draft.notifications) = cardinality(notifications) and draft.status',
    replace: 'loose := draft.status',
    foundBy: commits,
  },
  'PostgreSQL: a batch is committed asynchronously': {
    file: sql('send'),
    find: "  done := coalesce(held || released, held, released, '{}');\n",
    replace:
      "  done := coalesce(held || released, held, released, '{}');\n  perform set_config('synchronous_commit', 'off', true);\n",
    foundBy: commits,
  },
  'PostgreSQL: a lone renewal at its exact end': {
    file: sql('send'),
    find: 'where k.key = of_key and k.id = of_id and k.expires_at > now_ms and k.expires_at - now_ms <= k.ttl_ms\n  returning',
    replace:
      'where k.key = of_key and k.id = of_id and k.expires_at >= now_ms and k.expires_at - now_ms <= k.ttl_ms\n  returning',
    foundBy: batches,
  },
  'PostgreSQL: a batch renews at the exact end': {
    file: sql('send'),
    find: 'k.id = r.id\n         and k.expires_at > now_ms and k.expires_at - now_ms <= k.ttl_ms\n      returning k.key, k.last_fence',
    replace:
      'k.id = r.id\n         and k.expires_at >= now_ms and k.expires_at - now_ms <= k.ttl_ms\n      returning k.key, k.last_fence',
    foundBy: batches,
  },
  'PostgreSQL: a batch renews beside others at the exact end': {
    file: sql('send'),
    find: 'bool_and(coalesce(c.leaving is null and c.expires_at > now_ms',
    replace: 'bool_and(coalesce(c.leaving is null and c.expires_at >= now_ms',
    foundBy: batches,
  },
  'PostgreSQL: a batch renews beside others who was asked to leave': {
    file: sql('send'),
    find: 'bool_and(coalesce(c.leaving is null and c.expires_at',
    replace: 'bool_and(coalesce(c.expires_at',
    foundBy: batches,
  },
  'PostgreSQL: a batch renews past the longest hold': {
    file: sql('send'),
    find: "expires_at = least(now_ms + r.ttl_ms, k.acquired_at + (k.claim ->> 'max_hold_ms')::bigint)\n        from",
    replace: 'expires_at = now_ms + r.ttl_ms\n        from',
    foundBy: batches,
  },
  'PostgreSQL: a lone renewal past the longest hold': {
    file: sql('send'),
    find: "expires_at = least(now_ms + for_ms, k.acquired_at + (k.claim ->> 'max_hold_ms')::bigint)\n   where",
    replace: 'expires_at = now_ms + for_ms\n   where',
    foundBy: batches,
  },
  'PostgreSQL: a batch releases at the exact end as one in time': {
    file: sql('send'),
    find: 'not k.crowded\n         and k.expires_at > now_ms and',
    replace: 'not k.crowded\n         and k.expires_at >= now_ms and',
    foundBy: batches,
  },
  'PostgreSQL: a batch of claims has fences below the clock': {
    file: sql('send'),
    find: 'greatest(k.last_fence + 1, now_us), ended = null, id = excluded.id, channel = excluded.channel,\n             ttl_ms',
    replace: 'k.last_fence + 1, ended = null, id = excluded.id, channel = excluded.channel,\n             ttl_ms',
    foundBy: ['integration/postgres-fences', ...batches],
  },
  'PostgreSQL: a lone claim has a fence below the clock': {
    file: sql('send'),
    find: 'greatest(k.last_fence + 1, now_us), ended = null, id = excluded.id, channel = excluded.channel,\n         ttl_ms',
    replace: 'k.last_fence + 1, ended = null, id = excluded.id, channel = excluded.channel,\n         ttl_ms',
    foundBy: ['integration/postgres-fences', ...batches],
  },
  'PostgreSQL: an expired first waiter is promoted': {
    file: sql('contended'),
    find: 'not w.detached and w.expires_at > now_ms and w.expires_at - now_ms <= w.ttl_ms',
    replace: 'not w.detached and w.expires_at - now_ms <= w.ttl_ms',
    foundBy: batches,
  },
  'PostgreSQL: a hand-over’s fence is not lifted to the clock': {
    file: sql('contended'),
    find: '  minted := greatest(minted, now_us);\n',
    replace: '',
    foundBy: ['integration/postgres-fences', ...batches],
  },
  'PostgreSQL: a hand-over forgets an unclean end': {
    file: sql('contended'),
    find: 'k.crowded and k.ended is null and k.last_fence',
    replace: 'k.crowded and k.last_fence',
    foundBy: batches,
  },
  'PostgreSQL: a hand-over passes on what another holds': {
    file: sql('contended'),
    find: '  elsif in_row <> holder then\n    return null;\n',
    replace: '',
    foundBy: batches,
  },
  'PostgreSQL: a hand-over forgets the longest hold of the next': {
    file: sql('contended'),
    find: 'w.grace_ms = 0 and w.max_hold_ms is null\n',
    replace: 'w.grace_ms = 0\n',
    foundBy: batches,
  },
  'PostgreSQL: who queues up is not told of a grace': {
    file: sql('contended'),
    find: "k.expires_at + coalesce((k.claim ->> 'grace_ms')::bigint, 0),",
    replace: 'k.expires_at,',
    foundBy: batches,
  },
  'PostgreSQL: a claim that would not wait is refused for a holder whose time is over': {
    file: sql('send'),
    find: 'and k.expires_at > now_ms and k.expires_at - now_ms <= k.ttl_ms\n       and coalesce',
    replace: 'and k.expires_at - now_ms <= k.ttl_ms\n       and coalesce',
    foundBy: batches,
  },
  'PostgreSQL: barging: a free key with waiters is granted': {
    file: sql('send'),
    find: 'where k.id is null and not k.crowded and k.last_fence < 9007199254740990 /* FENCE_MAX - 1 */\n     and (k.ended',
    replace: 'where k.id is null and k.last_fence < 9007199254740990 /* FENCE_MAX - 1 */\n     and (k.ended',
    foundBy: batches,
  },
  'PostgreSQL: over-granted permits': {
    file: sql('conflict'),
    find: "elsif (sharing >= claim.share_limit) is not true then room := 'room';",
    replace: "elsif (sharing > claim.share_limit) is not true then room := 'room';",
    foundBy: contract,
  },
  'PostgreSQL: a grant past the longest hold': {
    file: sql('promotion'),
    find: '  c.expires_at := least(c.expires_at, draft.now_ms + c.max_hold_ms);\n',
    replace: '',
    foundBy: contract,
  },
  'PostgreSQL: a grant does not lift the fence to the clock': {
    file: sql('promotion'),
    find: 'draft.last_fence := greatest(draft.last_fence + 1, draft.fence_floor);',
    replace: 'draft.last_fence := draft.last_fence + 1;',
    foundBy: ['integration/postgres-fences', ...contract],
  },
  'PostgreSQL: a fence floor is not applied': {
    file: sql('admission'),
    find: '  c.fence := greatest(c.fence, fence_floor);\n',
    replace: '',
    foundBy: contract,
  },
  'PostgreSQL: a notification of a grant is lost': {
    file: sql('contended'),
    find: '  perform leasehold.notify_channel(next.channel, notifications);\n',
    replace: '',
    foundBy: contract,
  },
  'PostgreSQL: a gap is not told when listening begins again': {
    file: 'src/drivers/postgres/listener.ts',
    find: 'if (this.#hears) this.#options.onGap()',
    replace: '',
    foundBy: ['unit/postgres-listener', 'integration/postgres-faults'],
  },
}
