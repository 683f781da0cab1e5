import type { OwnerWait, SharedWaits } from '../../core/contract/driver.ts'
import type { PgRow } from '../postgres/connections.ts'

/** Publishes the waits of a client in place of its earlier ones, and selects those of all clients. */
export const shareWaitsSql = 'select * from leasehold.advisory_share_waits($1::text, $2::text)'

/** The selected waits. */
export function sharedWaits(rows: readonly PgRow[]): SharedWaits {
  const waits = rows.map((row) => ({
    wait: JSON.parse(row['wait'] as string) as OwnerWait,
    enteredAt: Number(row['entered_ms']),
    since: Number(row['since_ms']),
    until: Number(row['until_ms']),
  }))
  return { now: Number(rows[0]?.['now_ms'] ?? 0), waits }
}
