import type { Connection } from './connection.ts'
import { rollBack } from './database.ts'
import { wroteNothing } from './faults.ts'
import { TransactionWriter, type PgNotification } from './transaction-writer.ts'
import { Observer } from './observer.ts'
import type { SelfIdentity } from './self-identity.ts'

/** What came of a transaction. */
export interface Outcome<Result> {
  readonly result: Result
  /** For whom there is news, now that it is written. */
  readonly notices: readonly PgNotification[]
  /** Why it is not known whether anything was written. */
  readonly doubt?: unknown
}

/** Runs `work` in one immediate transaction. Throws only if nothing was written. */
export function inTransaction<Result>(
  { database, statements, contention }: Connection,
  self: SelfIdentity,
  work: (writing: TransactionWriter, now: number) => Result,
): Outcome<Result> {
  statements.begin.run()
  let result: Result
  let writing: TransactionWriter
  try {
    // Read the clock once the file is ours: time then never runs backwards from one transaction to the next.
    const observer = new Observer(self, statements, 'may write')
    writing = new TransactionWriter(statements, observer, self, contention)
    result = work(writing, observer.now)
    writing.finish()
  } catch (error) {
    rollBack(database)
    throw error
  }
  try {
    statements.commit.run()
  } catch (error) {
    rollBack(database)
    if (wroteNothing(error)) throw error
    return { result, notices: [], doubt: error }
  }
  return { result, notices: writing.notices }
}
