/**
 * One `send`: a read, the rule in this process, and a write that names the revisions that were read, on one connection. Before that, what
 * needs no reading.
 */
import type { ClaimStatus, Request } from '../../core/contract/driver.ts'
import { sendTimeoutFor } from '../../core/contract/requests.ts'
import type { DocumentSend } from '../document/document-send.ts'
import type { Loaded, Swap } from '../document/document-swaps.ts'
import { CallTimedOut } from '../kit/call-timeout.ts'
import { retryingWithin } from '../kit/retrying.ts'
import type { MysqlConnection } from './clients.ts'
import { isTableMissing, isWorthReadingAgain, isWorthWritingAgain, mysqlError, noMysqlAnswer } from './faults.ts'
import { documentMax, guessedChanges, type GuessedChange } from './guessed-changes.ts'
import { forgetHour, noRevision, type MysqlRow, type ReadClock } from './statements.ts'
import type { MysqlStore } from './store.ts'
import { documentText } from './stored-document.ts'

type Outcome = 'swapped' | 'conflict' | { readonly unknown: unknown }

const rowsMax = 500
/** Rows of a statement without a reading, and how many such statements at a time: the server compares each row with half the names. */
const guessesMax = 64
const guessingMax = 2

/** The most that a guess adds to its statement: its document, its name thrice, and what is between them. */
const guessBytesMax = documentMax + 3 * 1024 + 200

/** What all sends of a driver share. */
export interface MysqlSendSetup {
  readonly timeoutMs: number
  /** Never the same twice, of any driver. */
  readonly newRevision: () => string
}

export class MysqlSend implements DocumentSend<string> {
  readonly #store: MysqlStore
  readonly #setup: MysqlSendSetup
  readonly #timeoutMs: number
  /** When this send gives up, on the clock of this process. */
  readonly #deadline: number
  /** The connection of the last read, until the write that follows. Between the two no lock is held on the server. */
  #connection: MysqlConnection | undefined
  mayHaveWritten = false

  constructor(store: MysqlStore, requests: readonly Request[], setup: MysqlSendSetup) {
    this.#store = store
    this.#setup = setup
    this.#timeoutMs = sendTimeoutFor(requests, setup.timeoutMs)
    this.#deadline = performance.now() + this.#timeoutMs
  }

  // ---- without a reading

  async fast(requests: readonly Request[]): Promise<readonly (ClaimStatus | undefined)[]> {
    const answers: (ClaimStatus | undefined)[] = requests.map(() => undefined)
    const since = this.#store.lastReading
    if (since === undefined) return answers
    const changes = guessedChanges(requests, (name) => this.#store.recent.get(name))
    if (changes.length === 0) return answers
    const slices = [
      ...guessesOf(changes, Math.min(guessesMax, Math.floor(this.#store.documentBytesMax / guessBytesMax))),
    ]
    const work = Array.from({ length: Math.min(guessingMax, slices.length) }, async () => {
      for (let slice = slices.pop(); slice !== undefined; slice = slices.pop()) {
        const statuses = await this.#guess(slice, since)
        for (const [index, { place }] of slice.entries()) answers[place] = statuses[index]
      }
    })
    await Promise.all(work)
    return answers
  }

  /** Carries out changes of one kind. Undefined: nothing was changed, and a reading is needed. */
  async #guess(changes: readonly GuessedChange[], since: ReadClock): Promise<readonly (ClaimStatus | undefined)[]> {
    const { recent } = this.#store
    const revision = this.#setup.newRevision()
    let isSent = false
    let connection: MysqlConnection | undefined
    try {
      const leftMs = this.#leftMs()
      connection = await this.#store.lend(leftMs)
      isSent = true
      const { areWritten, fence } = await this.#change(connection, changes, revision, since)
      return changes.map((change, index) => {
        const { name, expected } = change.guess
        if (areWritten[index] !== true) {
          recent.forget(name)
          return undefined
        }
        if (change.op === 'release') {
          recent.put(name, expected, { revision, sole: undefined })
          return released
        }
        const { claim, status } = change
        const expiresAt = Math.floor(fence / 1000) + status.ttlMs
        recent.put(name, expected, { revision, sole: { id: claim.id, expiresAt } })
        return { ...status, fence }
      })
    } catch (error) {
      for (const { guess } of changes) recent.forget(guess.name)
      // The reading that follows finds out why, or has better luck: on another connection, if this one was dead.
      if (!isSent || isWorthWritingAgain(error) || isTableMissing(error)) return changes.map(() => undefined)
      if (isWorthReadingAgain(error)) {
        this.mayHaveWritten = true
        return this.#found(changes, revision).catch(() => changes.map(() => undefined))
      }
      return changes.map(() => ({ state: 'unknown', error: mysqlError(error) }))
    } finally {
      void connection?.giveBack(this.#timeoutMs).catch(() => {})
    }
  }

  /** The releases that were carried out though their connection ended: the rule finds nothing of those. It finds claims by their ids. */
  async #found(changes: readonly GuessedChange[], revision: string): Promise<readonly (ClaimStatus | undefined)[]> {
    if (changes[0]?.op !== 'release') return changes.map(() => undefined)
    const rows = changes.map(({ guess: { name } }) => ({ name, revision }))
    const areWritten = await this.#store.reading(this.#leftMs(), async (connection, leftMs) => {
      // Tells whether the session shows what is committed, and all of that.
      await this.#store.read(connection, [], leftMs)
      return this.#store.areWritten(connection, rows, leftMs)
    })
    return areWritten.map((isWritten) => (isWritten ? released : undefined))
  }

  async #change(
    connection: MysqlConnection,
    changes: readonly GuessedChange[],
    revision: string,
    { clock: since, askedAt }: ReadClock,
  ): Promise<{ readonly areWritten: readonly boolean[]; readonly fence: number }> {
    const withinMs = this.#leftMs()
    const grants = changes.filter((change) => change.op === 'claim')
    if (grants.length === 0) {
      const guesses = changes.map(({ guess }) => guess)
      const until = changes.reduce(
        (first, change) => (change.op === 'release' ? Math.min(first, change.until) : first),
        Infinity,
      )
      return { areWritten: await this.#store.release(connection, guesses, { revision, until }, withinMs), fence: 0 }
    }
    const keptMs = grants.reduce(
      (most, { claim, status }) => Math.max(most, status.ttlMs + claim.graceMs + claim.ttlMs),
      0,
    )
    const guesses = grants.map(({ guess }) => guess)
    // One that comes later must not be granted: its owner may have been told that it is not there.
    const within = Math.ceil((this.#deadline - askedAt) * (1 + driftRate) + lateMs) * 1000
    const terms = { revision, since, within, keptMs }
    const { clock, areWritten } = await this.#store.grant(connection, guesses, terms, withinMs)
    return { areWritten, fence: clock }
  }

  // ---- by compare-and-swap

  async load(
    keys: readonly string[],
  ): Promise<{ readonly now: number; readonly wall: number; readonly loaded: readonly Loaded<string>[] }> {
    const { clock, stored } = await this.#read(keys).catch((error: unknown) => {
      // It may become the answer to a request that was sent before.
      throw mysqlError(error)
    })
    const loaded = keys.map((key): Loaded<string> => {
      const { document, revision = noRevision } = stored.get(key) ?? {}
      return { document, revision }
    })
    return { now: Math.floor(clock / 1000), wall: clock / 1000, loaded }
  }

  async #read(keys: readonly string[]): ReturnType<MysqlStore['read']> {
    const reading = async (leftMs: number): ReturnType<MysqlStore['read']> => {
      this.#giveBack()
      this.#connection = await this.#store.lend(leftMs)
      return this.#store.read(this.#connection, keys, this.#leftMs())
    }
    return retryingWithin(this.#leftMs(), reading, isWorthReadingAgain)
  }

  async swap(swaps: readonly Swap<string>[]): Promise<readonly Outcome[]> {
    const outcomes = new Map<string, Outcome>()
    // In order of their names: two statements that lock the same rows must not do so crosswise.
    const revision = this.#setup.newRevision()
    const rows = swaps.map((swap) => rowOf(swap, revision)).toSorted((a, b) => (a.name < b.name ? -1 : 1))
    for (const slice of slicesBySize(rows, this.#store.documentBytesMax)) {
      // Too large a slice costs the connection: those after it were not sent, and are read again on another.
      if (this.#connection?.isSpoilt === true) break
      for (const [index, outcome] of (await this.#write(slice)).entries())
        outcomes.set(slice[index]?.name ?? '', outcome)
    }
    this.#giveBack()
    this.#store.tidyNowAndThen()
    return swaps.map((swap) => {
      const outcome = outcomes.get(swap.key) ?? 'conflict'
      if (outcome === 'swapped') this.#note(swap, revision)
      else this.#store.recent.forget(swap.key)
      return outcome
    })
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

  #note({ key, document, revision: expected }: Swap<string>, revision: string): void {
    const [first, ...others] = document.claims
    const isSimple = document.ended === undefined && others.length === 0 && first?.state !== 'waiting'
    const sole = first && { id: first.claim.id, expiresAt: first.expiresAt }
    if (isSimple) this.#store.recent.put(key, expected, { revision, sole })
    else this.#store.recent.forget(key)
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

/** By how much the server's clock may run faster than that of this process: what runs later is read again. */
const driftRate = 0.001
const lateMs = 2

const released: ClaimStatus = { state: 'absent', reason: 'released' }

function rowOf({ key, document, revision: expected }: Swap<string>, revision: string): MysqlRow {
  return {
    name: key,
    expected,
    revision,
    lastFence: document.lastFence,
    document: documentText(document),
    claims: document.claims.length,
    forgetHour: forgetHour(document),
  }
}

/** Changes of one kind, in the order of their names, in parts that are about equal. */
function* guessesOf(changes: readonly GuessedChange[], max: number): Generator<readonly GuessedChange[]> {
  if (max < 1) return
  for (const op of ['release', 'claim'] as const) {
    const alike = changes.filter((change) => change.op === op)
    const ordered = alike.toSorted((a, b) => (a.guess.name < b.guess.name ? -1 : 1))
    const length = Math.ceil(ordered.length / Math.ceil(ordered.length / max))
    for (let from = 0; from < ordered.length; from += length) yield ordered.slice(from, from + length)
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
