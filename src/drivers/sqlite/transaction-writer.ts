import { admit, type RecordChange, type Decision } from '../../core/rule/admission.ts'
import { keyOf } from '../../core/contract/requests.ts'
import type { Ended } from '../../core/rule/claim-record.ts'
import type { EvictionCause, Request, ClaimStatus } from '../../core/contract/driver.ts'
import {
  foreignRowOf,
  holderValues,
  newHolderValues,
  newWaiterValues,
  rowOf,
  waiterValues,
  type ClaimRow,
} from './claim-row.ts'
import { SqliteKeyView, type KeySummary } from './key-view.ts'
import { RowObserver } from './row-observer.ts'
import type { SelfIdentity } from './self-identity.ts'
import type { Statements } from './statements.ts'
import type { SqliteConnection } from './connection.ts'
import { rollBack, type SqliteRow, type SqliteValue } from './database.ts'
import { wroteNothing } from './faults.ts'
import { shortRunner } from '../../core/rule/short-runner.ts'
import { readRunner } from './claim-text.ts'
import type { InboxNotification } from './inbox.ts'

/** A notification, and the stamp of the driver whose inbox it goes to. */
export interface AddressedNotification extends InboxNotification {
  readonly stamp: string
}

/** Whether a release is likely to find a waiter: where the last one did, the next mostly does too. */
export interface ContentionHint {
  expected: boolean
}

/** One transaction's work: carries requests out one after the other, on top of what the earlier ones wrote. */
export class TransactionWriter {
  readonly notifications: AddressedNotification[] = []
  readonly #statements: Statements
  readonly observer: RowObserver
  readonly self: SelfIdentity
  readonly contention: ContentionHint
  /** Read with the first key, written once at the end. */
  #counters: { fence: number; sequence: number } | undefined
  #countersChanged = false

  constructor(statements: Statements, observer: RowObserver, self: SelfIdentity, contention: ContentionHint) {
    this.#statements = statements
    this.observer = observer
    this.self = self
    this.contention = contention
  }

  carryOut(request: Request): ClaimStatus {
    const key = keyOf(request)
    const row = this.#statements.summary.get(key) ?? {}
    const counters = (this.#counters ??= { fence: row['fence'] as number, sequence: row['sequence'] as number })
    const summary: KeySummary = {
      holders: row['holders'] as number,
      awaited: row['awaited'] === 1,
      remembered: row['remembered'] === 1,
    }
    const ended = summary.remembered ? this.#readEnded(key) : undefined
    const view = new SqliteKeyView(key, summary, counters, ended, this.#statements, this.observer)
    const verdict = admit(view, request, this.observer.now)
    const asking = request.op === 'claim' ? request.claim.id : request.op === 'renew' ? request.id : undefined
    for (const change of verdict.changes) this.#apply(change, view, asking, counters)
    this.#writeEnded(key, verdict, ended, summary.remembered)
    if (verdict.lastFence !== counters.fence) {
      counters.fence = verdict.lastFence
      this.#countersChanged = true
    }
    for (const { record, status } of verdict.notifications) {
      const { id } = record.claim
      const stamp = view.row(id)?.stamp
      if (stamp !== undefined) this.notifications.push({ stamp, key, id, status })
    }
    return verdict.status
  }

  /** Writes the counters down, once a transaction. */
  finish(): void {
    if (!this.#countersChanged || this.#counters === undefined) return
    const { fence, sequence } = this.#counters
    this.#statements.setCounters.run(fence, sequence, this.self.stamp.boot)
  }

  #apply(
    { before, after }: RecordChange,
    view: SqliteKeyView,
    asking: string | undefined,
    counters: { sequence: number },
  ): void {
    const statements = this.#statements
    if (before !== undefined && before.state !== after?.state) {
      const { key, id } = before.claim
      if (before.state === 'held') statements.deleteHolder.run(key, id)
      else statements.deleteWaiter.run(key, id)
      const stored = view.row(id)
      if (after === undefined && stored !== undefined && this.observer.isForeign(stored)) {
        statements.deleteSightings.run(key, id)
      }
    }
    if (after === undefined) return
    const row = this.#rowFor(after, view.row(after.claim.id), asking)
    const stays = before?.state === after.state
    if (after.state === 'held') {
      if (stays) statements.updateHolder.run(...holderValues(row))
      else statements.insertHolder.run(...newHolderValues(row, this.#count(counters)))
    } else if (stays) statements.updateWaiter.run(...waiterValues(row))
    else {
      statements.insertWaiter.run(...newWaiterValues(row))
      this.#count(counters)
    }
  }

  #count(counters: { sequence: number }): number {
    this.#countersChanged = true
    counters.sequence += 1
    return counters.sequence
  }

  #rowFor(
    record: NonNullable<RecordChange['after']>,
    stored: ClaimRow | undefined,
    asking: string | undefined,
  ): ClaimRow {
    // A claim or renewal puts the sender's stamp on the claim; whatever other requests do to the claim leaves the stamp alone.
    if (stored === undefined || record.claim.id === asking) return rowOf(record, this.self.name)
    return this.observer.isForeign(stored) ? foreignRowOf(record, stored) : rowOf(record, stored.stamp)
  }

  /** An ending noted under another boot is ignored: its time cannot be compared with ours. */
  #readEnded(key: string): Ended | undefined {
    const row = this.#statements.endedOf.get(key)
    if (row === undefined || row['boot'] !== this.self.stamp.boot) return undefined
    return readEnded(row)
  }

  #writeEnded(key: string, { ended }: Decision, before: Ended | undefined, remembered: boolean): void {
    if (ended === before && (ended !== undefined || !remembered)) return
    if (ended === undefined) this.#statements.deleteEnded.run(key)
    else {
      this.#statements.setEnded.run(key, this.self.stamp.boot, ...endedValues(ended))
      this.#statements.forgetEnded.run(this.observer.now)
    }
  }
}

/** What came of a transaction. */
export interface TransactionOutcome<Result> {
  readonly result: Result
  /** To be delivered now that the transaction is written. */
  readonly notifications: readonly AddressedNotification[]
  /** Why it is not known whether anything was written. */
  readonly doubt?: unknown
}

/** Runs `work` in one immediate transaction. Throws only if nothing was written. */
export function inTransaction<Result>(
  { database, statements, contention }: SqliteConnection,
  self: SelfIdentity,
  work: (writer: TransactionWriter, now: number) => Result,
): TransactionOutcome<Result> {
  statements.begin.run()
  let result: Result
  let writer: TransactionWriter
  try {
    // The clock is read once the file is locked, so that time never runs backwards from one transaction to the next.
    const observer = new RowObserver(self, statements, 'may write')
    writer = new TransactionWriter(statements, observer, self, contention)
    result = work(writer, observer.now)
    writer.finish()
  } catch (error) {
    rollBack(database)
    throw error
  }
  try {
    statements.commit.run()
  } catch (error) {
    rollBack(database)
    if (wroteNothing(error)) throw error
    return { result, notifications: [], doubt: error }
  }
  return { result, notifications: writer.notifications }
}

/** Reads a row of `endings`. */
export function readEnded(row: SqliteRow): Ended {
  return {
    id: row['id'] as string,
    how: row['how'] as Ended['how'],
    cause: (row['cause'] as EvictionCause | null) ?? undefined,
    detail: (row['detail'] as string | null) ?? undefined,
    fence: row['fence'] as number,
    runner: readRunner(row['key'] as string, row['runner'] as string),
    until: row['until'] as number,
    told: row['told'] === 1,
  }
}

/** The values of a row of `endings`, in the order of its columns, but for the key and the boot. */
export function endedValues({ until, id, how, cause, detail, fence, told, runner }: Ended): SqliteValue[] {
  return [until, id, how, detail ?? null, fence, Number(told), shortRunner(runner), cause ?? null]
}

/** Keys tidied at once, at most. */
const keysTidiedMax = 100

/**
 * Removes what no request will touch again: claims of crashed processes on keys used once, endings and sightings that no longer
 * matter. Runs inside the caller's transaction, with bounded work.
 */
export function tidy({ database, statements }: SqliteConnection, writer: TransactionWriter, now: number): void {
  const { boot } = writer.self.stamp
  database.command('delete from endings where boot <> ? or until <= ?').run(boot, now)
  database.exec(`
    delete from sights where not exists (select 1 from held where key = sights.key and id = sights.id)
      and not exists (select 1 from waiting where key = sights.key and id = sights.id)`)
  for (const row of statements.expiredKeys.all(`${boot}_`, now, keysTidiedMax)) {
    // Releasing an id that does not exist runs the rule on the key: it ends expired claims and grants the next.
    writer.carryOut({ op: 'release', key: row['key'] as string, id: '' })
  }
}
