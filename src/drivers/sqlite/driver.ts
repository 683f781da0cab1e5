/**
 * Locks in one file, for any number of processes of one machine: the default store.
 *
 * Every `send` is one immediate transaction in which the rule of `admission.ts` runs. Time is the machine's monotonic
 * clock; a claim of a process that died is passed on at once; news for other processes goes to their inbox files.
 */
import { uptime } from 'node:os'
import path from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { keyOf } from '../../core/contract/requests.ts'
import type {
  OnGap,
  OnNotification,
  KeyPage,
  ListQuery,
  LockDriver,
  Request,
  ClaimStatus,
  Notification,
} from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { fullSupport } from '../../core/contract/supports.ts'
import { withinLimits } from '../../core/contract/limits.ts'
import { Listeners } from '../kit/listeners.ts'
import { SingleFlight } from '../../core/time/single-flight.ts'
import { Inbox, removeDeadInboxes } from './inbox.ts'
import { InboxNotifier } from './inbox-notifier.ts'
import { bornAt } from './birth.ts'
import { connect, type Connection } from './connection.ts'
import { rollBack } from './database.ts'
import { DeathWatch } from './death-watch.ts'
import { faultOf, spoilsConnection } from './faults.ts'
import { identify, isSameFile } from './file-identity.ts'
import { tidy, type TransactionWriter, type PgNotification, inTransaction, type Outcome } from './transaction-writer.ts'
import { listPage } from './listing.ts'
import { Observer } from './observer.ts'
import { busyTimeoutDefaultMs, sqliteNames, type SqliteOptions } from './options.ts'
import { retryWhileBusy } from './busy-retry.ts'
import { lostWithFile, refuseIfInUse } from './replaced-file.ts'
import { takeShortcut } from './shortcut.ts'
import { selfIdentityIn, type SelfIdentity } from './self-identity.ts'
import { defaultFile } from '../../core/machine/directories.ts'
import { checkOptions } from '../../core/contract/option-names.ts'
import { timerMs } from '../../core/time/duration.ts'
import { inboxDirectory, createInboxDirectory, logIndexOf, logOf, realFile } from './store-file.ts'
import { forOthers, systemSqliteEnvironment, type SqliteEnvironment } from './sqlite-environment.ts'

export type { SqliteOptions } from './options.ts'
export type { SqliteClock, SqliteEnvironment } from './sqlite-environment.ts'

/** How often to look whether the file is still the one that was opened, at most. */
const identityEveryMs = 50
/** How often to let go of what nobody asks for any more. */
const tidyEveryMs = 60_000

/**
 * A lock store in a file.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { sqlite } from 'leasehold/sqlite'
 *
 * await using locks = await createLocks({ driver: sqlite({ file: '/var/lib/shop/locks.sqlite' }) })
 * ```
 */
export function sqlite(options: SqliteOptions = {}): LockDriver {
  checkOptions(options, sqliteNames, 'sqlite')
  return new SqliteDriver(options)
}

class SqliteDriver implements LockDriver {
  readonly name = 'sqlite'
  readonly supports = fullSupport
  readonly store: string
  /** The file as it was named; `#file` is what that name leads to. */
  readonly #named: string
  #file: string
  readonly #options: SqliteOptions
  readonly #surroundings: SqliteEnvironment
  readonly #self: SelfIdentity
  readonly #busyTimeoutMs: number
  readonly #listeners = new Listeners()
  readonly #opening = new SingleFlight(() => this.#connect())
  readonly #deathWatch: DeathWatch
  #notifier: InboxNotifier
  #connection: Connection | undefined
  #inbox: Inbox | undefined
  #closed = false
  #commits = 0
  #identityReadAt = 0
  #tidiedAt = 0

  constructor(options: SqliteOptions) {
    this.#options = options
    this.#named = path.resolve(options.file ?? defaultFile())
    this.#file = realFile(this.#named)
    this.store = this.#file
    this.#busyTimeoutMs = timerMs(options.busyTimeoutMs ?? busyTimeoutDefaultMs, 'busyTimeoutMs')
    const surroundings = { ...systemSqliteEnvironment(), ...options.surroundings }
    this.#surroundings = options.forOthers === true ? forOthers(surroundings) : surroundings
    this.#self = selfIdentityIn(this.#surroundings)
    this.#notifier = new InboxNotifier(inboxDirectory(this.#file))
    this.#deathWatch = new DeathWatch({
      version: () => `${this.#commits} ${String(this.#connection?.statements.dataVersion.get()?.['data_version'])}`,
      stampsOf: (key) => this.#connection?.statements.stampsOf.all(key).map((row) => row['stamp'] as string) ?? [],
      isGone: (stamp) => this.#self.isGone(stamp),
      died: (key, id) => this.#notify(key, id, 'poll'),
    })
  }

  async open(): Promise<void> {
    await this.#connected()
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  async #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const connection = await this.#connected()
    const { result, notices } = await this.#retryWhileBusy(() => this.#transact(connection, requests))
    this.#keepTrack(requests, result)
    if (notices.length > 0) await this.#pass(notices)
    if (performance.now() - this.#tidiedAt > tidyEveryMs && !this.#closed) this.#tidy(connection)
    return result
  }

  async list(query: ListQuery): Promise<KeyPage> {
    const { database, statements } = await this.#connected()
    return this.#retryWhileBusy(() => {
      this.#refuseIfClosed()
      // One moment for the whole page.
      statements.beginReading.run()
      try {
        return listPage(statements, new Observer(this.#self, statements, 'only reads'), query)
      } finally {
        rollBack(database)
      }
    })
  }

  listen(onNotification: OnNotification, onGap?: OnGap): Disposable {
    return this.#listeners.listen(onNotification, onGap)
  }

  async dataAgeMs(): Promise<number> {
    const { database } = await this.#connected('look at the file')
    const ageMs = await this.#retryWhileBusy(() => this.#surroundings.clock.wall() - bornAt(database))
    // A power cut can undo the last moments before it.
    return Math.max(0, Math.min(uptime() * 1000, ageMs))
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    this.#deathWatch.close()
    this.#disconnect()
    // Statements that wait for the garbage collector end in a turn of their own.
    await nextTurn()
  }

  // ---- the connection

  /** Looks whether the file is still the same if it has not for a while, or in any case. */
  async #connected(look?: 'look at the file'): Promise<Connection> {
    this.#refuseIfClosed()
    const isDue = look !== undefined || performance.now() - this.#identityReadAt > identityEveryMs
    if (isDue && this.#isReplaced()) {
      // Nothing is told while `send` is being called.
      await Promise.resolve()
      this.#leaveIfReplaced()
    }
    return this.#connection ?? this.#opening.opened()
  }

  async #connect(): Promise<Connection> {
    this.#disconnect()
    const surroundings = this.#surroundings
    const checkFileSystem = this.#options.networkFileSystem !== true
    // A symbolic link may lead elsewhere by now.
    this.#file = realFile(this.#named)
    this.#notifier = new InboxNotifier(inboxDirectory(this.#file))
    const connection = await this.#retryWhileBusy(() => {
      this.#refuseIfClosed()
      return connect(this.#file, surroundings, checkFileSystem, () => refuseIfInUse(this.#file, this.#self))
    })
    if (this.#closed) connection.database.close()
    this.#refuseIfClosed()
    this.#connection = connection
    this.#identityReadAt = performance.now()
    this.#openInbox()
    this.#tidy(connection)
    // News may have come while there was no inbox.
    this.#notifyGap()
    return connection
  }

  #disconnect(): void {
    this.#inbox?.close()
    this.#inbox = undefined
    this.#notifier.close()
    this.#connection?.database.close()
    this.#connection = undefined
  }

  /** Whether the file, its log or the log's index was deleted or replaced: locks in ours would exclude nobody. */
  #isReplaced(): boolean {
    this.#identityReadAt = performance.now()
    const connection = this.#connection
    if (connection === undefined) return false
    const { identity, log, logIndex } = connection
    return (
      !isSameFile(identify(this.#named), identity) ||
      !isSameFile(identify(logOf(this.#file)), log) ||
      !isSameFile(identify(logIndexOf(this.#file)), logIndex)
    )
  }

  /** Tells those who hold locks in a file that was replaced, and only then takes the inbox down: see `refuseIfInUse`. */
  #leaveIfReplaced(): void {
    if (!this.#isReplaced()) return
    const waiting = [...this.#deathWatch.claims()]
    try {
      for (const row of this.#connection?.statements.heldBy.all(this.#self.name) ?? [])
        this.#notify(row['key'] as string, row['id'] as string, lostWithFile)
    } catch {
      // The old file cannot be read: its holders learn of it when they renew.
    }
    this.#disconnect()
    for (const [key, id] of waiting) this.#notify(key, id, 'poll')
  }

  /** A hint, like all that an inbox says: without one, waiting claims ask again by themselves. */
  #openInbox(): void {
    try {
      const directory = createInboxDirectory(this.#file)
      removeDeadInboxes(directory, this.#self)
      this.#inbox = new Inbox({
        file: path.join(directory, this.#self.name),
        watch: this.#surroundings.watch,
        onNotification: ({ key, id, status }) => this.#notify(key, id, status),
        onGap: () => this.#notifyGap(),
        look: () => this.#leaveIfReplaced(),
        removed: () => this.#reopenInbox(),
        isAwaited: () => !this.#deathWatch.isIdle,
      })
    } catch {
      this.#inbox = undefined
    }
  }

  /** What was rung meanwhile is lost, so that everybody asks. Whoever deleted the inbox may have deleted the file too. */
  #reopenInbox(): void {
    this.#leaveIfReplaced()
    if (this.#connection === undefined) return
    this.#inbox?.close()
    this.#openInbox()
    this.#notifyGap()
  }

  /** Tidying can wait for a quieter moment. */
  #tidy(connection: Connection): void {
    this.#tidiedAt = performance.now()
    try {
      this.#inbox?.touch()
      const tidied = inTransaction(connection, this.#self, (writing, now) => tidy(connection, writing, now))
      void this.#pass(tidied.notices)
    } catch {
      // Busy or full: whoever asks for a key settles it anyway.
    }
  }

  // ---- transactions

  #transact(connection: Connection, requests: readonly Request[]): Outcome<ClaimStatus[]> {
    this.#refuseIfClosed()
    const outcome = this.#carryOut(connection, requests)
    this.#commits += 1
    if (outcome.doubt === undefined) return outcome
    const error = faultOf(outcome.doubt, this.#file)
    return { result: requests.map(() => ({ state: 'unknown', error })), notices: [] }
  }

  #carryOut(connection: Connection, requests: readonly Request[]): Outcome<ClaimStatus[]> {
    const [only] = requests
    const byTheRule = (writing: TransactionWriter): ClaimStatus[] =>
      requests.map((request) => writing.carryOut(request))
    if (only === undefined || requests.length > 1) return inTransaction(connection, this.#self, byTheRule)
    // A request that comes by itself, as most do, may need a statement or two only.
    return inTransaction(connection, this.#self, (writing) => {
      const status = takeShortcut(connection.statements, writing, only)
      return status === undefined ? byTheRule(writing) : [status]
    })
  }

  /** At once if the file is not busy: a promise would take longer than many a transaction. */
  async #retryWhileBusy<Result>(attempt: () => Result): Promise<Result> {
    try {
      return await retryWhileBusy(attempt, this.#busyTimeoutMs)
    } catch (error) {
      if (spoilsConnection(error)) this.#disconnect()
      throw faultOf(error, this.#file)
    }
  }

  // ---- news

  /** Which of our claims wait: they are told of deaths, and a polled inbox is polled more often. */
  #keepTrack(requests: readonly Request[], statuses: readonly ClaimStatus[]): void {
    for (const [index, request] of requests.entries()) {
      if (request.op === 'evict') continue
      const id = request.op === 'claim' ? request.claim.id : request.id
      const state = statuses[index]?.state
      if (state === 'waiting') {
        this.#deathWatch.add(keyOf(request), id)
        this.#inbox?.awaited()
      } else if (state !== 'unknown') this.#deathWatch.delete(keyOf(request), id)
    }
  }

  /** Resolves when others have been told: they get the processor before whoever asked goes on. */
  async #pass(notices: readonly PgNotification[]): Promise<void> {
    const own = notices.filter(({ stamp }) => stamp === this.#self.name)
    if (own.length === 0) return void (await this.#notifier.ring(notices))
    queueMicrotask(() => {
      // What others left at the inbox before is older news.
      this.#inbox?.listen()
      for (const { key, id, status } of own) this.#notify(key, id, status)
    })
    if (own.length < notices.length) {
      await this.#notifier.ring(notices.filter(({ stamp }) => stamp !== this.#self.name))
    }
  }

  #notify(key: string, id: string, notification: Notification): void {
    if (notification !== 'poll') this.#deathWatch.delete(key, id)
    this.#listeners.notify(key, id, notification)
  }

  #notifyGap(): void {
    for (const [key, id] of this.#deathWatch.claims()) this.#notify(key, id, 'poll')
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw new LeaseholdError('CLOSED', `The lock file ${this.#file} has been closed.`)
  }
}
