import type { Connection } from './connection.ts'
import type { TransactionWriter } from './transaction-writer.ts'

/** Keys settled by one opening, at most. */
const keysPerOpening = 100

/**
 * Lets go of what nobody will ask for again: claims of crashed processes under names used once, endings and sightings
 * that no longer matter. Runs inside the caller's transaction, with bounded work.
 */
export function tidy({ database, statements }: Connection, writing: TransactionWriter, now: number): void {
  const { boot } = writing.writer.self
  database.command('delete from endings where boot <> ? or until <= ?').run(boot, now)
  database.exec(`
    delete from sights where not exists (select 1 from held where key = sights.key and id = sights.id)
      and not exists (select 1 from waiting where key = sights.key and id = sights.id)`)
  for (const row of statements.expiredKeys.all(`${boot}_`, now, keysPerOpening)) {
    // Releasing nothing makes the rule look at the key: it ends what is over and lets the next one in.
    writing.carryOut({ op: 'release', key: row['key'] as string, id: '' })
  }
}
