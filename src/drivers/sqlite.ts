/**
 * Locks in one file, for any number of processes of one machine: the default store.
 *
 * Every `send` is one immediate transaction in which the rule of `admission.ts` runs. Time is the machine's monotonic
 * clock; a claim of a process that died is passed on at once; news for other processes goes to their bell files.
 */
import { statSync } from 'node:fs'
import path from 'node:path'
import { keyOf } from '../core/batcher.ts'
import type { Heard, KeyPage, ListQuery, LockDriver, Request, Standing, Supports } from '../core/driver.ts'
import { LeaseholdError } from '../core/errors.ts'
import { Bell, removeDeadBells, ringBells } from './sqlite/bell.ts'
import { connect, rollBack, type Connection } from './sqlite/connection.ts'
import { DeathWatch } from './sqlite/death-watch.ts'
import { faultOf, isBusy, wroteNothing } from './sqlite/faults.ts'
import { tidy } from './sqlite/housekeeping.ts'
import { Ledger, type Notice } from './sqlite/ledger.ts'
import { listPage } from './sqlite/listing.ts'
import { Observer } from './sqlite/observer.ts'
import { newOwner, ownerName, type Owner } from '../core/owner.ts'
import { persist } from './sqlite/patience.ts'
import { defaultFile } from '../core/state-directory.ts'
import { bellDirectory, createBellDirectory } from './sqlite/store-file.ts'
import { systemSurroundings, type SqliteSurroundings } from './sqlite/surroundings.ts'

export type { SqliteClock, SqliteSurroundings } from './sqlite/surroundings.ts'

export interface SqliteOptions {
  /** The lock file; made when missing. Absent: `locks.sqlite` in the user's state directory. */
  readonly file?: string
  /** True: use the file even on a network file system. Only safe while one machine alone uses it. */
  readonly networkFileSystem?: boolean
  /** How long to wait for a file that other processes keep busy before UNAVAILABLE. 5 s unless told. */
  readonly patienceMs?: number
  /** What to take from elsewhere than the machine, in tests. */
  readonly surroundings?: Partial<SqliteSurroundings>
}

const supports: Supports = {
  shared: true,
  limit: true,
  range: true,
  queue: true,
  push: true,
  priority: true,
  convert: true,
  evict: ['stale', 'lower-priority', 'same-runner', 'all'],
  grace: true,
  maxHold: true,
  fence: true,
  ttlMinMs: 1,
  // A year: times must stay whole numbers that JavaScript can add up.
  ttlMaxMs: 31_536_000_000,
}

const patienceDefaultMs = 5000
/** How often to look whether the file is still the one that was opened. */
const identityEveryMs = 1000

/** A lock store in a file. */
export function sqlite(options: SqliteOptions = {}): LockDriver {
  return new SqliteDriver(options)
}

class SqliteDriver implements LockDriver {
  readonly name = 'sqlite'
  readonly supports = supports
  readonly #file: string
  readonly #options: SqliteOptions
  readonly #surroundings: SqliteSurroundings
  readonly #self: Owner
  readonly #selfName: string
  readonly #patienceMs: number
  readonly #listeners = new Set<Heard>()
  readonly #deathWatch: DeathWatch
  #connection: Connection | undefined
  #opening: Promise<Connection> | undefined
  #bell: Bell | undefined
  #closed = false
  #commits = 0
  #inode = 0
  #identityReadAt = 0

  constructor(options: SqliteOptions) {
    this.#options = options
    this.#file = path.resolve(options.file ?? defaultFile())
    this.#patienceMs = options.patienceMs ?? patienceDefaultMs
    this.#surroundings = { ...systemSurroundings(), ...options.surroundings }
    this.#self = newOwner(this.#surroundings.boot, this.#surroundings.process)
    this.#selfName = ownerName(this.#self)
    this.#deathWatch = new DeathWatch({
      version: () => `${this.#commits} ${String(this.#connection?.statements.dataVersion.get()?.['data_version'])}`,
      ownersOf: (key) => this.#connection?.statements.ownersOf.all(key).map((row) => row['owner'] as string) ?? [],
      isGone: this.#isGone,
      died: (key, id) => this.#tell(key, id, 'ask'),
    })
  }

  async open(): Promise<void> {
    await this.#connected()
  }

  async send(requests: readonly Request[]): Promise<readonly Standing[]> {
    const connection = await this.#connected()
    const { standings, notices } = await this.#persist(() => this.#transact(connection, requests))
    this.#keepTrack(requests, standings)
    this.#pass(notices)
    return standings
  }

  async list(query: ListQuery): Promise<KeyPage> {
    const { database, statements } = await this.#connected()
    return this.#persist(() => {
      this.#refuseIfClosed()
      // One moment for the whole page.
      statements.beginReading.run()
      try {
        return listPage(statements, this.#observe(statements, false), query)
      } finally {
        rollBack(database)
      }
    })
  }

  listen(heard: Heard): Disposable {
    this.#listeners.add(heard)
    return { [Symbol.dispose]: () => void this.#listeners.delete(heard) }
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    this.#deathWatch.close()
    this.#disconnect()
  }

  // ---- the connection

  async #connected(): Promise<Connection> {
    this.#refuseIfClosed()
    if (this.#connection !== undefined && this.#isSameFile()) return this.#connection
    this.#opening ??= this.#connect().finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  async #connect(): Promise<Connection> {
    this.#disconnect()
    const surroundings = this.#surroundings
    const checkFileSystem = this.#options.networkFileSystem !== true
    const connection = await this.#persist(() => {
      this.#refuseIfClosed()
      return connect(this.#file, surroundings, checkFileSystem)
    })
    this.#connection = connection
    this.#inode = statSync(this.#file).ino
    this.#hangBell()
    this.#tidy(connection)
    return connection
  }

  #disconnect(): void {
    this.#bell?.close()
    this.#bell = undefined
    this.#connection?.database.close()
    this.#connection = undefined
  }

  /** A file that was deleted or replaced under us is nobody else's any more: locks in it would exclude nobody. */
  #isSameFile(): boolean {
    const now = performance.now()
    if (now - this.#identityReadAt < identityEveryMs) return true
    this.#identityReadAt = now
    return statSync(this.#file, { throwIfNoEntry: false })?.ino === this.#inode
  }

  /** A hint, like all that a bell says: without one, waiting claims ask again by themselves. */
  #hangBell(): void {
    try {
      const directory = createBellDirectory(this.#file)
      removeDeadBells(directory, this.#isGone, this.#self.boot)
      this.#bell = new Bell({
        file: path.join(directory, this.#selfName),
        watch: this.#surroundings.watch,
        heard: ({ key, id, standing }) => this.#tell(key, id, standing),
        missed: () => {
          for (const [key, id] of this.#deathWatch.claims()) this.#tell(key, id, 'ask')
        },
        isAwaited: () => !this.#deathWatch.isIdle,
      })
    } catch {
      this.#bell = undefined
    }
  }

  /** Tidying can wait for a quieter moment. */
  #tidy(connection: Connection): void {
    try {
      const { notices } = this.#inTransaction(connection, (ledger, now) =>
        tidy(connection, ledger, this.#self.boot, now),
      )
      this.#pass(notices)
    } catch {
      // Busy or full: whoever asks for a key settles it anyway.
    }
  }

  // ---- transactions

  #transact(connection: Connection, requests: readonly Request[]): { standings: Standing[]; notices: Notice[] } {
    this.#refuseIfClosed()
    const { result, notices, doubt } = this.#inTransaction(connection, (ledger) =>
      requests.map((request) => ledger.carryOut(request)),
    )
    if (doubt === undefined) return { standings: result, notices }
    const error = faultOf(doubt, this.#file)
    return { standings: requests.map(() => ({ state: 'unknown', error })), notices: [] }
  }

  /** Runs `work` in one transaction. Throws only if nothing was written; `doubt`: that cannot be told. */
  #inTransaction<Result>(
    { database, statements }: Connection,
    work: (ledger: Ledger, now: number) => Result,
  ): { result: Result; notices: Notice[]; doubt?: unknown } {
    statements.begin.run()
    let result: Result
    let ledger: Ledger
    try {
      // Read the clock once the file is ours: time then never runs backwards from one transaction to the next.
      const observer = this.#observe(statements, true)
      const { clock, boot } = this.#surroundings
      ledger = new Ledger(statements, observer, { owner: this.#selfName, boot, wall: () => clock.wall() })
      result = work(ledger, observer.now)
      ledger.finish()
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
    this.#commits += 1
    return { result, notices: ledger.notices }
  }

  #observe(statements: Connection['statements'], mayWrite: boolean): Observer {
    const now = Math.floor(this.#surroundings.clock.now())
    return new Observer(now, this.#self, this.#isGone, statements, mayWrite)
  }

  async #persist<Result>(attempt: () => Result): Promise<Result> {
    try {
      return await persist(attempt, this.#patienceMs)
    } catch (error) {
      // A connection may keep a fault in mind (a damaged page, a log gone): begin with a fresh one.
      if (!this.#closed && !isBusy(error) && !(error instanceof LeaseholdError)) this.#disconnect()
      throw faultOf(error, this.#file)
    }
  }

  // ---- news

  readonly #isGone = (owner: Owner): boolean => this.#surroundings.isGone(owner, this.#self)

  /** Which of our claims wait: they are told of deaths, and a polled bell is polled more often. */
  #keepTrack(requests: readonly Request[], standings: readonly Standing[]): void {
    for (const [index, request] of requests.entries()) {
      if (request.op === 'evict') continue
      const id = request.op === 'claim' ? request.claim.id : request.id
      const state = standings[index]?.state
      if (state === 'waiting') {
        this.#deathWatch.add(keyOf(request), id)
        this.#bell?.awaited()
      } else if (state !== 'unknown') this.#deathWatch.delete(keyOf(request), id)
    }
  }

  #pass(notices: readonly Notice[]): void {
    if (notices.length === 0) return
    const own = notices.filter(({ owner }) => owner === this.#selfName)
    if (own.length > 0) {
      queueMicrotask(() => {
        // What others left at the bell before is older news.
        this.#bell?.listen()
        for (const { key, id, standing } of own) this.#tell(key, id, standing)
      })
    }
    if (own.length < notices.length) {
      ringBells(
        bellDirectory(this.#file),
        notices.filter(({ owner }) => owner !== this.#selfName),
      )
    }
  }

  #tell(key: string, id: string, news: Standing | 'ask'): void {
    if (news !== 'ask') this.#deathWatch.delete(key, id)
    for (const heard of this.#listeners) heard(key, id, news)
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw new LeaseholdError('CLOSED', `The lock file ${this.#file} has been closed.`)
  }
}
