// Compiled by test/unit/types.test.ts and scripts/consumers/types.mjs. Never run.
import type { Locks } from 'leasehold'
import { mongoGuard, sqlGuard, type SqlPiece } from 'leasehold/guards'

/** A pool of pg, as far as that goes: whatever takes text and values will do. */
interface Pool {
  query(text: string, values?: unknown[]): Promise<{ rowCount: number | null }>
  query(config: { text: string; values?: unknown[] }): Promise<{ rowCount: number | null }>
}

export async function paid(locks: Locks, pool: Pool, id: number): Promise<void> {
  const guard = sqlGuard('postgres', { column: 'fence' })
  await locks.run(`orders/${id}`, async ({ fence }) => {
    const { sql, values } = guard.update({ table: 'orders', set: { state: 'paid' }, where: { id }, fence })
    guard.check(await pool.query(sql, values), `orders/${id}`, fence)
    const raised = guard.raise({ table: ['shop', 'orders'], where: { id }, fence })
    guard.check(await pool.query(...textAndValues(raised)), `orders/${id}`, fence)
    guard.check(await pool.query({ text: sql, values: [...values, id] }), `orders/${id}`, fence)
  })
}

function textAndValues({ sql, values }: SqlPiece): [string, unknown[]] {
  return [sql, values]
}

export const update: { $set: Record<string, unknown> } = mongoGuard().update({ $set: { state: 'paid' } }, 118)
