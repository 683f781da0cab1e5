import type { KeyPage, ListedClaim, ListQuery, Runner } from '../../core/contract/driver.ts'
import { pageOfRows } from '../kit/paging.ts'
import type { PgRow } from '../postgres/connections.ts'
import type { Holding, Holdings } from './holdings.ts'

/** The sessions that hold named locks, by the server's own account: of the first $4 keys, one row a session and key. */
export const holdersSql = `
  select h.hash::text as hash, h.key, h.mode, h.pid as process_id, s.runner, a.application_name,
         floor(extract(epoch from clock_timestamp()) * 1000)::text as now,
         floor(extract(epoch from a.backend_start) * 1000)::text as started_at
    from (
      select n.hash, n.key, l.mode, l.pid, dense_rank() over (order by n.key) as place
        from pg_locks l
        join leasehold.advisory_names n on (l.classid::bigint << 32 | l.objid::bigint) = n.hash
       where l.locktype = 'advisory' and l.objsubid = 1 and l.granted
         and l.database = (select oid from pg_database where datname = current_database())
         and ($1::text is null or n.key = $1) and n.key > $2 collate "C" and starts_with(n.key, $3)
    ) as h
    join pg_stat_activity a on a.pid = h.pid
    left join leasehold.advisory_sessions s on s.process_id = a.pid and s.started_at = a.backend_start
   where h.place <= $4::integer
   order by h.key, h.pid`

/** A page out of these rows. The row of another session says little but whose it is; our own holdings are shown in full. */
export function advisoryPage(
  rows: readonly PgRow[],
  query: ListQuery,
  own: Holdings,
  ownProcessId: number,
  ttlMs: number,
): KeyPage {
  const now = Number(rows[0]?.['now'] ?? 0)
  const claims = new Map<string, ListedClaim[]>()
  for (const row of rows) {
    const key = row['key'] as string
    const holdings = row['process_id'] === ownProcessId ? own.of(row['hash'] as string) : []
    const found = holdings.length > 0 ? holdings.map((holding) => listedHolding(holding, now)) : [listedRow(row, ttlMs)]
    claims.set(key, [...(claims.get(key) ?? []), ...found])
  }
  return pageOfRows(
    [...claims],
    { query, now },
    ([key]) => key,
    ([key, listed]) => ({ key, claims: listed }),
  )
}

function listedHolding(holding: Holding, now: number): ListedClaim {
  const { claim } = holding
  const shift = now - performance.now()
  return {
    id: claim.id,
    state: 'held',
    mode: claim.mode,
    priority: claim.priority,
    fence: holding.fence,
    ttlMs: holding.ttlMs,
    graceMs: 0,
    enteredAt: Math.floor(holding.heldSince + shift),
    acquiredAt: Math.floor(holding.heldSince + shift),
    lastHeartbeat: Math.floor(holding.lastHeartbeat + shift),
    renewalCount: holding.renewalCount,
    expiresAt: Math.floor(holding.expiresAt + shift),
    runner: claim.runner,
  }
}

function listedRow(row: PgRow, ttlMs: number): ListedClaim {
  const processId = row['process_id'] as number
  const startedAt = Number(row['started_at'])
  const now = Number(row['now'])
  const stranger: Runner = {
    id: `session ${processId}`,
    incarnation: `${processId}-${startedAt}`,
    host: (row['application_name'] as string | null) ?? '',
    pid: processId,
    client: '',
  }
  return {
    id: `session ${processId}`,
    state: 'held',
    mode: row['mode'] === 'ShareLock' ? 'shared' : 'exclusive',
    priority: 0,
    // Its holder alone knows it.
    fence: 0,
    ttlMs,
    graceMs: 0,
    enteredAt: startedAt,
    acquiredAt: startedAt,
    lastHeartbeat: now,
    renewalCount: 0,
    expiresAt: now + ttlMs,
    runner: row['runner'] == null ? stranger : (JSON.parse(row['runner'] as string) as Runner),
  }
}
