/** One `send`: a read, the rule in this process, and a write that names the revisions that were read, on one connection. */
import type { Request } from '../../core/contract/driver.ts'
import { sendTimeoutFor } from '../../core/contract/requests.ts'
import type { DocumentSend } from '../document/document-send.ts'
import type { Loaded, Swap } from '../document/document-swaps.ts'
import { CallTimedOut } from '../kit/call-timeout.ts'
import { retryingWithin } from '../kit/retrying.ts'
import type { MysqlConnection } from './clients.ts'
import { isWorthReadingAgain, isWorthWritingAgain, mysqlError, noMysqlAnswer } from './faults.ts'
import { forgetHour, noRevision, type MysqlRow } from './statements.ts'
import type { MysqlStore } from './store.ts'

type Outcome = 'swapped' | 'conflict' | { readonly unknown: unknown }

const rowsMax = 500

export class MysqlSend implements DocumentSend<string> {
  readonly #store: MysqlStore
  readonly #newRevision: () => string
  readonly #timeoutMs: number
  /** When this send gives up, on the clock of this process. */
  readonly #deadline: number
  /** The connection of the last read, until the write that follows. Between the two no lock is held on the server. */
  #connection: MysqlConnection | undefined

  constructor(store: MysqlStore, requests: readonly Request[], timeoutMs: number, newRevision: () => string) {
    this.#store = store
    this.#newRevision = newRevision
    this.#timeoutMs = sendTimeoutFor(requests, timeoutMs)
    this.#deadline = performance.now() + this.#timeoutMs
  }

  async load(
    keys: readonly string[],
  ): Promise<{ readonly now: number; readonly wall: number; readonly loaded: readonly Loaded<string>[] }> {
    const reading = async (leftMs: number): ReturnType<MysqlStore['read']> => {
      this.#giveBack()
      this.#connection = await this.#store.lend(leftMs)
      return this.#store.read(this.#connection, keys, this.#leftMs())
    }
    const { clock, stored } = await retryingWithin(this.#leftMs(), reading, isWorthReadingAgain)
    const loaded = keys.map((key): Loaded<string> => {
      const { document, revision = noRevision } = stored.get(key) ?? {}
      return { document, revision }
    })
    return { now: Math.floor(clock / 1000), wall: clock / 1000, loaded }
  }

  async swap(swaps: readonly Swap<string>[]): Promise<readonly Outcome[]> {
    const outcomes = new Map<string, Outcome>()
    // In order of their names: two statements that lock the same rows must not do so crosswise.
    const rows = swaps.map((swap) => this.#rowOf(swap)).toSorted((a, b) => (a.name < b.name ? -1 : 1))
    for (const slice of slicesBySize(rows, this.#store.documentBytesMax)) {
      // Too large a slice costs the connection: those after it were not sent, and are read again on another.
      if (this.#connection?.isSpoilt === true) break
      for (const [index, outcome] of (await this.#write(slice)).entries())
        outcomes.set(slice[index]?.name ?? '', outcome)
    }
    this.#giveBack()
    this.#store.tidyNowAndThen()
    return swaps.map(({ key }) => outcomes.get(key) ?? 'conflict')
  }

  settled(): void {
    this.#giveBack()
  }

  async #write(rows: readonly MysqlRow[]): Promise<readonly Outcome[]> {
    const connection = this.#connection
    try {
      if (connection === undefined) throw new Error('Nothing was read')
      const write = (leftMs: number): Promise<readonly boolean[]> => this.#store.write(connection, rows, leftMs)
      const areWritten = await retryingWithin(this.#leftMs(), write, isWorthWritingAgain)
      return areWritten.map((isWritten) => (isWritten ? 'swapped' : 'conflict'))
    } catch (error) {
      return rows.map(() => ({ unknown: mysqlError(error) }))
    }
  }

  #rowOf({ key, document, revision }: Swap<string>): MysqlRow {
    return {
      name: key,
      expected: revision,
      revision: this.#newRevision(),
      document: JSON.stringify(document),
      claims: document.claims.length,
      forgetHour: forgetHour(document),
    }
  }

  #giveBack(): void {
    void this.#connection?.giveBack(this.#timeoutMs).catch(() => {})
    this.#connection = undefined
  }

  /** What is left of the time of this send: a server that stands still must not keep a renewal waiting. */
  #leftMs(): number {
    const leftMs = Math.floor(this.#deadline - performance.now())
    if (leftMs < 1) throw new CallTimedOut(noMysqlAnswer(this.#timeoutMs))
    return leftMs
  }
}

/** Rows in order, cut where a statement would carry too much. */
function* slicesBySize(rows: readonly MysqlRow[], bytesMax: number): Generator<readonly MysqlRow[]> {
  let slice: MysqlRow[] = []
  let bytes = 0
  for (const row of rows) {
    const size = Buffer.byteLength(row.document) + row.name.length + 200
    if (slice.length > 0 && (bytes + size > bytesMax || slice.length === rowsMax)) {
      yield slice
      slice = []
      bytes = 0
    }
    slice.push(row)
    bytes += size
  }
  if (slice.length > 0) yield slice
}
