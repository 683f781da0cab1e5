/**
 * Locks in one file, for any number of processes of one machine: the default store.
 *
 * Every `send` is one immediate transaction in which the rule of `admission.ts` runs. Time is the machine's monotonic
 * clock; the claim of a process that died passes to the next at once; notifications for other processes go to their inbox files.
 */
import { uptime } from 'node:os'
import path from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { claimIdOf, keyOf } from '../../core/contract/requests.ts'
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
import { fullSupport } from '../../core/contract/supports.ts'
import { withinLimits } from '../../core/contract/limits.ts'
import { Listeners } from '../kit/listeners.ts'
import { sendByWork } from '../kit/work.ts'
import { inNextTurn } from '../../core/time/event-loop.ts'
import { Lifecycle } from '../kit/lifecycle.ts'
import { Inbox, removeDeadInboxes } from './inbox.ts'
import { InboxNotifier } from './inbox-notifier.ts'
import { bornAt } from './birth.ts'
import { openConnection, type SqliteConnection } from './connection.ts'
import { rollBack } from './database.ts'
import { DeathWatch } from './death-watch.ts'
import { sqliteError, spoilsConnection } from './faults.ts'
import { identify, isSameFile } from './file-identity.ts'
import {
  tidy,
  type TransactionWriter,
  type AddressedNotification,
  inTransaction,
  type TransactionOutcome,
} from './transaction-writer.ts'
import { sqlitePage } from './listing.ts'
import { RowObserver } from './row-observer.ts'
import { retryWhileBusy } from './busy-retry.ts'
import { lostWithFile, refuseIfInUse } from './replaced-file.ts'
import { renewOwnHolder, takeShortcut } from './shortcut.ts'
import { selfIdentityIn, type SelfIdentity } from './self-identity.ts'
import { defaultFile } from '../../core/machine/directories.ts'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import { timerMs } from '../../core/time/duration.ts'
import {
  inboxDirectory,
  createInboxDirectory,
  logIndexOf,
  logOf,
  realFile,
  refusePlantedLink,
  refuseStrangeInboxes,
} from './store-file.ts'
import { forOthers, systemSqliteEnvironment, type SqliteEnvironment } from './sqlite-environment.ts'

export type { SqliteClock, SqliteEnvironment } from './sqlite-environment.ts'

/** Where a lock store keeps its file, and how it treats it. */
export interface SqliteOptions {
  /**
   * The lock file; made when missing.
   *
   * @default `locks.sqlite` in the user's state directory
   */
  readonly file?: string | undefined
  /**
   * True: use the file even on a network file system. Only safe while one machine alone uses it.
   *
   * @default false
   */
  readonly networkFileSystem?: boolean | undefined
  /**
   * How long to wait for a file that other processes keep busy before UNAVAILABLE.
   *
   * @default 5000
   */
  readonly busyTimeoutMs?: number | undefined
  /**
   * True: the claims are made for other processes, as by a server, and live by their ttl alone. False: they end with this
   * process.
   *
   * @default false
   */
  readonly forOthers?: boolean | undefined
  /** Replaces parts of the machine (clock, boot, processes, file system), in tests. */
  readonly environment?: Partial<SqliteEnvironment> | undefined
}

const sqliteNames: OptionNames<SqliteOptions> = {
  file: true,
  networkFileSystem: true,
  busyTimeoutMs: true,
  forOthers: true,
  environment: true,
}

const busyTimeoutDefaultMs = 5000
/** The most requests of a transaction that need the whole rule: the event loop and the file's other users wait for it. */
const ruleRequestsMax = 64
/** The file is compared with the one that was opened at most this often. */
const identityEveryMs = 50
/** Rows that no request will touch again are removed this often. */
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
  readonly #environment: SqliteEnvironment
  readonly #self: SelfIdentity
  readonly #busyTimeoutMs: number
  readonly #listeners = new Listeners()
  /** Shares the attempt to connect, and refuses when closed. `#connection` is what is open: an inbox needs it before the attempt ends. */
  readonly #lifecycle: Lifecycle<SqliteConnection>
  readonly #deathWatch: DeathWatch
  #notifier: InboxNotifier
  #connection: SqliteConnection | undefined
  #inbox: Inbox | undefined
  #hasConnected = false
  #commits = 0
  #identityReadAt = 0
  #tidiedAt = 0

  constructor(options: SqliteOptions) {
    this.#options = options
    this.#named = path.resolve(options.file ?? defaultFile())
    this.#file = realFile(this.#named)
    this.store = this.#file
    this.#busyTimeoutMs = timerMs(options.busyTimeoutMs ?? busyTimeoutDefaultMs, 'busyTimeoutMs')
    const environment = { ...systemSqliteEnvironment(), ...options.environment }
    this.#environment = options.forOthers === true ? forOthers(environment) : environment
    this.#self = selfIdentityIn(this.#environment)
    this.#notifier = this.#newNotifier()
    this.#lifecycle = new Lifecycle(
      () => `The lock file ${this.#file}`,
      () => this.#connect(),
    )
    this.#deathWatch = new DeathWatch({
      version: () => `${this.#commits} ${String(this.#connection?.statements.dataVersion.get()?.['data_version'])}`,
      stampsOf: (key) => this.#connection?.statements.stampsOf.all(key).map((row) => row['stamp'] as string) ?? [],
      isGone: (stamp) => this.#self.isGone(stamp),
      onDeath: (key, id) => this.#notify(key, id, 'poll'),
    })
  }

  async open(): Promise<void> {
    await this.#connected()
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    let isFirst = true
    return sendByWork(requests, ruleRequestsMax, async (slice) => {
      // Between two transactions, this process and others have their turn.
      if (!isFirst) await new Promise<void>(inNextTurn)
      isFirst = false
      return this.#sendSlice(slice)
    })
  }

  async #sendSlice(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const connection = await this.#connected()
    const { result, notifications } = await this.#retryWhileBusy(() => this.#transact(connection, requests))
    this.#keepTrack(requests, result)
    if (notifications.length > 0) await this.#deliver(notifications)
    if (performance.now() - this.#tidiedAt > tidyEveryMs && !this.#lifecycle.isShut) this.#tidy(connection)
    return result
  }

  async list(query: ListQuery): Promise<KeyPage> {
    const { database, statements } = await this.#connected()
    return this.#retryWhileBusy(() => {
      this.#lifecycle.refuseIfShut()
      // One transaction, so that the whole page is of one moment.
      statements.beginReading.run()
      try {
        return sqlitePage(statements, new RowObserver(this.#self, statements, 'only reads'), query)
      } finally {
        rollBack(database)
      }
    })
  }

  listen(onNotification: OnNotification, onGap?: OnGap): Disposable {
    return this.#listeners.listen(onNotification, onGap)
  }

  async dataAgeMs(): Promise<number> {
    const { database } = await this.#connected('check the file')
    const ageMs = await this.#retryWhileBusy(() => this.#environment.clock.wall() - bornAt(database))
    // A power cut can undo the last transactions, so the data is no older than the boot.
    return Math.max(0, Math.min(uptime() * 1000, ageMs))
  }

  async close(): Promise<void> {
    this.#lifecycle.shut()
    this.#listeners.clear()
    this.#deathWatch.close()
    this.#disconnect()
    // Statements that the garbage collector has found end in the next turn of the event loop.
    await nextTurn()
  }

  // ---- the connection

  /** The open connection, or a new one. Checks now and then, or when told to, that the file is still the one that was opened. */
  async #connected(check?: 'check the file'): Promise<SqliteConnection> {
    this.#lifecycle.refuseIfShut()
    const isDue = check !== undefined || performance.now() - this.#identityReadAt > identityEveryMs
    if (isDue && this.#isReplaced()) {
      // Listeners must not be called while `send` is on the stack.
      await Promise.resolve()
      this.#leaveIfReplaced()
    }
    if (this.#connection !== undefined) return this.#connection
    const { current } = this.#lifecycle
    // `#disconnect` has closed it.
    if (current !== undefined) this.#lifecycle.forget(current)
    return this.#lifecycle.opened()
  }

  async #connect(): Promise<SqliteConnection> {
    this.#disconnect()
    const environment = this.#environment
    const checkFileSystem = this.#options.networkFileSystem !== true
    // A symbolic link may lead elsewhere by now.
    this.#file = realFile(this.#named)
    this.#notifier = this.#newNotifier()
    const connection = await this.#retryWhileBusy(() => {
      this.#lifecycle.refuseIfShut()
      refusePlantedLink(this.#named)
      return openConnection(this.#file, environment, checkFileSystem, () => refuseIfInUse(this.#file, this.#self))
    })
    if (this.#lifecycle.isShut) connection.database.close()
    this.#lifecycle.refuseIfShut()
    this.#connection = connection
    this.#identityReadAt = performance.now()
    this.#openInbox()
    this.#tidy(connection)
    // Notifications may have been sent while this driver had no inbox.
    if (this.#hasConnected) this.#listeners.gap()
    this.#hasConnected = true
    return connection
  }

  #newNotifier(): InboxNotifier {
    const file = this.#file
    return new InboxNotifier(inboxDirectory(file), () => refuseStrangeInboxes(file))
  }

  #disconnect(): void {
    this.#inbox?.close()
    this.#inbox = undefined
    this.#notifier.close()
    this.#connection?.database.close()
    this.#connection = undefined
  }

  /** Whether the file, its log or the log's index was deleted or replaced: locks in the open one would exclude nobody. */
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

  /** If the file was replaced, notifies the holders of locks in the old one, and only then removes the inbox: see `refuseIfInUse`. */
  #leaveIfReplaced(): void {
    if (!this.#isReplaced()) return
    try {
      for (const row of this.#connection?.statements.heldBy.all(this.#self.name) ?? [])
        this.#notify(row['key'] as string, row['id'] as string, lostWithFile)
    } catch {
      // The old file cannot be read: its holders learn of the loss when they renew.
    }
    this.#disconnect()
    this.#listeners.gap()
  }

  /** Notifications are hints: without an inbox, waiting claims renew by themselves and learn the same. */
  #openInbox(): void {
    try {
      const directory = createInboxDirectory(this.#file)
      removeDeadInboxes(directory, this.#self)
      this.#inbox = new Inbox({
        file: path.join(directory, this.#self.name),
        watch: this.#environment.watch,
        onNotification: ({ key, id, status }) => this.#notify(key, id, status),
        onGap: () => this.#listeners.gap(),
        checkFile: () => this.#leaveIfReplaced(),
        onRemoved: () => this.#reopenInbox(),
        isAwaited: () => !this.#deathWatch.isIdle,
      })
    } catch {
      this.#inbox = undefined
    }
  }

  /** Notifications sent meanwhile are lost: a gap. Whoever deleted the inbox may have deleted the lock file too. */
  #reopenInbox(): void {
    this.#leaveIfReplaced()
    if (this.#connection === undefined) return
    this.#inbox?.close()
    this.#openInbox()
    this.#listeners.gap()
  }

  /** Never throws: what could not be tidied now is tidied the next time. */
  #tidy(connection: SqliteConnection): void {
    this.#tidiedAt = performance.now()
    try {
      this.#inbox?.touch()
      const tidied = inTransaction(connection, this.#self, (writer, now) => tidy(connection, writer, now))
      void this.#deliver(tidied.notifications)
    } catch {
      // The file is busy or the disk full: the next request for a key settles that key anyway.
    }
  }

  // ---- transactions

  #transact(connection: SqliteConnection, requests: readonly Request[]): TransactionOutcome<ClaimStatus[]> {
    this.#lifecycle.refuseIfShut()
    const outcome = this.#carryOut(connection, requests)
    this.#commits += 1
    if (outcome.doubt === undefined) return outcome
    const error = sqliteError(outcome.doubt, this.#file)
    return { result: requests.map(() => ({ state: 'unknown', error })), notifications: [] }
  }

  #carryOut(connection: SqliteConnection, requests: readonly Request[]): TransactionOutcome<ClaimStatus[]> {
    const [only] = requests
    const { statements } = connection
    const carryOutAll = (writer: TransactionWriter): ClaimStatus[] =>
      requests.map((request) => renewOwnHolder(statements, writer, request) ?? writer.carryOut(request))
    if (only === undefined || requests.length > 1) return inTransaction(connection, this.#self, carryOutAll)
    // A request alone in its batch, as most are, may need only a statement or two.
    return inTransaction(connection, this.#self, (writer) => {
      const status = takeShortcut(statements, writer, only)
      return status === undefined ? carryOutAll(writer) : [status]
    })
  }

  /** As `retryWhileBusy`, with errors a user understands, and without the connection once an error has spoiled it. */
  async #retryWhileBusy<Result>(attempt: () => Result): Promise<Result> {
    try {
      return await retryWhileBusy(attempt, this.#busyTimeoutMs)
    } catch (error) {
      if (spoilsConnection(error)) this.#disconnect()
      throw sqliteError(error, this.#file)
    }
  }

  // ---- notifications

  /** Notes which claims of this driver wait: the death watch guards them, and an inbox without a watcher is polled more often. */
  #keepTrack(requests: readonly Request[], statuses: readonly ClaimStatus[]): void {
    for (const [index, request] of requests.entries()) {
      const id = claimIdOf(request)
      if (id === undefined) continue
      const state = statuses[index]?.state
      if (state === 'waiting') {
        this.#deathWatch.add(keyOf(request), id)
        this.#inbox?.pollSooner()
      } else if (state !== 'unknown') this.#deathWatch.delete(keyOf(request), id)
    }
  }

  /** Resolves when other processes have been notified: they get the processor before our caller goes on. */
  async #deliver(notifications: readonly AddressedNotification[]): Promise<void> {
    const own = notifications.filter(({ stamp }) => stamp === this.#self.name)
    if (own.length === 0) return void (await this.#notifier.notify(notifications))
    queueMicrotask(() => {
      // What other processes wrote to the inbox before is older.
      this.#inbox?.read()
      for (const { key, id, status } of own) this.#notify(key, id, status)
    })
    if (own.length < notifications.length) {
      await this.#notifier.notify(notifications.filter(({ stamp }) => stamp !== this.#self.name))
    }
  }

  #notify(key: string, id: string, notification: Notification): void {
    if (notification !== 'poll') this.#deathWatch.delete(key, id)
    this.#listeners.notify(key, id, notification)
  }
}
