import type { Ended } from '../../core/claim-record.ts'
import type { Claim, Succession } from '../../core/driver.ts'
import { shortRunner } from '../../core/short-runner.ts'
import { isPlain } from './claim-row.ts'
import { successionText, termsText } from './claim-text.ts'
import type { Database, Row } from './database.ts'
import { damagedRow } from './faults.ts'
import schema from './schema.sql.generated.ts'

/**
 * Brings a file of format 1, 2 or 3 to the format of schema.sql, inside the caller's transaction: every claim, ending
 * and sighting and the counters are carried over. Those formats had a claim whole, as JSON, in a column `claim`, an
 * ending in `details`, and the counters in a table; format 3 had them among the holders, with a view in its place.
 *
 * A driver of an older version that has the file open finds none of its tables from now on: it opens the file again, is
 * told that the format is newer, and its claims end by their ttl.
 */
export function upgrade(database: Database, format: number): void {
  // All is read before anything is dropped: a table is locked while a statement reads it.
  const read = (table: string): Row[] => database.query(`select * from ${table}`).all()
  const [counters] = read('counters')
  const rows = {
    held: renewed(read("holders where key <> x''"), newHolder),
    waiting: renewed(read('waiters'), newWaiter),
    endings: renewed(read('ended'), newEnding),
    sights: read('sightings'),
  }
  // With a table go its indexes and triggers.
  database.exec(`drop ${format < 3 ? 'table' : 'view'} counters;
    drop table holders; drop table waiters; drop table ended; drop table sightings`)
  database.exec(schema)
  if (counters !== undefined) setCounters(database, counters)
  for (const [table, added] of Object.entries(rows)) for (const row of added) insert(database, table, row)
}

/** The rows in their new form. One that cannot be read stops the upgrade, as it may be a lock that somebody holds. */
function renewed(rows: readonly Row[], renew: (row: Row) => Row): Row[] {
  return rows.map((row) => {
    try {
      return renew(row)
    } catch (error) {
      throw damagedRow(`What is stored of ${JSON.stringify(row['key'])}`, error)
    }
  })
}

function newHolder({ claim, succession, ...kept }: Row): Row {
  return {
    ...kept,
    succession: succession == null ? null : successionText(JSON.parse(succession as string) as Succession),
    ...textsOf(JSON.parse(claim as string) as Claim, kept),
  }
}

function newWaiter({ claim, ...kept }: Row): Row {
  const asked = JSON.parse(claim as string) as Claim
  // Format 3 did not know whether claims older than itself are plain.
  return { ...kept, plain: Number(isPlain(asked)), ...textsOf(asked, kept) }
}

function textsOf(claim: Claim, row: Row): Row {
  const terms = termsText(claim, row['ttl_ms'] as number, row['detached'] === 1)
  return { runner: shortRunner(claim.runner), terms }
}

function newEnding({ details, ...kept }: Row): Row {
  const { id, how, detail, fence, told, runner } = JSON.parse(details as string) as Ended
  return { ...kept, id, how, detail: detail ?? null, fence, told: Number(told), runner: shortRunner(runner) }
}

function setCounters(database: Database, { fence, sequence, boot }: Row): void {
  database
    .command("update held set fence = ?, turn = ?, owner = ? where key = x'' and id = ''")
    .run(fence as number, sequence as number, boot as string)
}

function insert(database: Database, table: string, row: Row): void {
  const columns = Object.keys(row)
  const marks = columns.map(() => '?').join(', ')
  database.command(`insert into ${table} (${columns.join(', ')}) values (${marks})`).run(...Object.values(row))
}
