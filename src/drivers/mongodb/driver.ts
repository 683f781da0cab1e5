/**
 * Locks in a MongoDB collection, 4.4 or newer: a server alone, a replica set, or a sharded cluster.
 *
 * One document a key. A claim on a key nobody wants, and the renewal and release of its holder, are one `findOneAndUpdate`
 * each, by the server's clock; all else is compare-and-swap around the rule of `admission.ts`. Every write is with a
 * majority before it is answered. News reaches other processes by a change stream, or else by looking.
 */
import { randomBytes } from 'node:crypto'
import { sendBySwapping } from '../document/document-swaps.ts'
import { timerMs, type Duration } from '../../core/time/duration.ts'
import type {
  OnGap,
  OnNotification,
  KeyPage,
  ListQuery,
  LockDriver,
  Request,
  ClaimStatus,
  Supports,
} from '../../core/contract/driver.ts'
import { systemEnvironment } from '../../core/time/environment.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { fullSupport, leaseDefaults } from '../../core/contract/supports.ts'
import { withinLimits } from '../../core/contract/limits.ts'
import { Listeners } from '../kit/listeners.ts'
import { SingleFlight } from '../../core/time/single-flight.ts'
import { checkOptions, type OptionNames, withDefaults } from '../../core/contract/option-names.ts'
import { sendTimeoutFor } from '../../core/contract/requests.ts'
import type { MongoSource } from './client.ts'
import type { ReadConcern } from './concerns.ts'
import { dataAgeMs } from './data-age.ts'
import { mongodbError } from './errors.ts'
import { ensureTtlIndex, MongoStore } from './store.ts'
import { mongodbPage } from './listing.ts'
import { QueuePoller, type PollPace } from './queue-poller.ts'
import { ChangeStreamListener } from './change-stream-listener.ts'
import { ClaimRegister } from './claim-register.ts'
import type { Expression } from './fast-path.ts'
import { MongodbSend, type MongodbSendSetup } from './send.ts'
import { mongodbParameters } from './url.ts'

export type { MongoClientLike, MongoDatabase, MongoSource } from './client.ts'
export type { ReadConcern } from './concerns.ts'

/** The options of `mongodb`. */
export interface MongodbOptions {
  /**
   * The collection of the locks; in a URL: `?collection=NAME`.
   *
   * @default 'DistributedLocks'
   */
  readonly collection?: string | undefined
  /**
   * With a client or URL: the database.
   *
   * @default the one that the URL names
   */
  readonly database?: string | undefined
  /**
   * How long a lease lasts where the caller names no ttl.
   *
   * @default '30s'
   */
  readonly ttl?: Duration | undefined
  /**
   * How often such a lease is renewed.
   *
   * @default a third of `ttl`
   */
  readonly heartbeat?: Duration | undefined
  /**
   * The least pause between two looks at a key that is waited for, where changes cannot be watched.
   *
   * @default '10ms'
   */
  readonly waitMin?: Duration | undefined
  /**
   * The longest such pause.
   *
   * @default '800ms'
   */
  readonly waitMax?: Duration | undefined
  /**
   * False: pauses are anything between the two, by chance, instead of growing from the least.
   *
   * @default true
   */
  readonly adaptive?: boolean | undefined
  /**
   * False: look instead of watching changes, and spare the connection.
   *
   * @default true
   */
  readonly changeStream?: boolean | undefined
  /**
   * Weaker concerns are refused.
   *
   * @default 'linearizable', or 'majority' of a server without a replica set
   */
  readonly readConcern?: ReadConcern | undefined
  /**
   * How long one `send` may take, retries included; where short leases are renewed, a third of their ttl at most.
   *
   * @default '5s'
   */
  readonly timeout?: Duration | undefined
  /** The store's time in milliseconds, for tests that move it. All drivers of one store must share it. */
  readonly clockForTests?: (() => number) | undefined
}

const mongodbNames: OptionNames<MongodbOptions> = {
  collection: true,
  database: true,
  ttl: true,
  heartbeat: true,
  waitMin: true,
  waitMax: true,
  adaptive: true,
  changeStream: true,
  readConcern: true,
  timeout: true,
  clockForTests: true,
}

const routedClocks =
  'Behind mongos a lease is judged by the clock of the mongos that is asked. Keep the clocks of all of them together (NTP), ' +
  'well within a twentieth of the ttl, or name one mongos in the URL: otherwise two may hold a lock.'

const defaults = { collection: 'DistributedLocks', waitMin: 10, waitMax: 800, timeout: 5000 } as const

/**
 * A lock store in MongoDB: a URL, a `MongoClient` or a `Db` of the mongodb package.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { mongodb } from 'leasehold/mongodb'
 * import { MongoClient } from 'mongodb'
 *
 * const client = new MongoClient('mongodb://127.0.0.1:27017/shop')
 * await using locks = await createLocks({ driver: mongodb(client, { collection: 'locks' }) })
 * ```
 */
export function mongodb(source: MongoSource, options: MongodbOptions = {}): LockDriver {
  checkOptions(options, mongodbNames, 'mongodb')
  return new MongodbDriver(source, options)
}

class MongodbDriver implements LockDriver {
  readonly name = 'mongodb'
  readonly supports: Supports
  warnings: readonly string[] = []
  readonly #source: MongoSource
  readonly #options: MongodbOptions
  readonly #pace: PollPace
  readonly #timeoutMs: number
  /** Our name on every claim we look after. */
  readonly #channel = randomBytes(9).toString('base64url')
  readonly #environment = systemEnvironment()
  readonly #claims = new ClaimRegister()
  readonly #listeners = new Listeners()
  readonly #opening = new SingleFlight(() => this.#open())
  readonly #setup: MongodbSendSetup
  #store: MongoStore | undefined
  #poller: QueuePoller | undefined
  #stream: ChangeStreamListener | undefined
  #indexing: Promise<void> | undefined
  #closed = false

  constructor(source: MongoSource, options: MongodbOptions) {
    const fromUrl = typeof source === 'string' ? mongodbParameters(source) : undefined
    this.#source = fromUrl?.url ?? source
    this.#options = withDefaults<MongodbOptions>(fromUrl?.options ?? {}, options)
    this.#timeoutMs = timerMs(options.timeout ?? defaults.timeout, 'timeout')
    this.#pace = paceOf(options)
    this.supports = { ...fullSupport, ...leaseDefaults(options) }
    let revisions = 0
    this.#setup = {
      channel: this.#channel,
      clock: () => this.#clock(),
      newRevision: () => `${this.#channel}${(revisions += 1)}`,
      notify: (key, id, status) => this.#listeners.notify(key, id, status),
      isOwn: (key, id) => this.#claims.has(key, id),
      isContended: (key) => this.#claims.waitsFor(key),
      mayWithdraw: (key, id) => this.#claims.isSafe(key, id, this.#ownTime()),
    }
  }

  async open(): Promise<void> {
    await this.#opened()
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  async #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const store = this.#store ?? (await this.#opened())
    this.#refuseIfClosed()
    const sentAt = this.#ownTime()
    const sending = new MongodbSend(
      this.#setup,
      store,
      requests,
      performance.now() + sendTimeoutFor(requests, this.#timeoutMs),
    )
    const statuses = await sendBySwapping(sending, requests, this.#environment)
    this.#keepTrack(requests, statuses, sentAt)
    return statuses
  }

  async list(query: ListQuery): Promise<KeyPage> {
    const store = await this.#opened()
    try {
      return await mongodbPage(store, this.#clock(), query, this.#timeoutMs)
    } catch (error) {
      throw mongodbError(error)
    }
  }

  listen(onNotification: OnNotification, onGap?: OnGap): Disposable {
    return this.#listeners.listen(onNotification, onGap)
  }

  async dataAgeMs(): Promise<number> {
    const store = await this.#opened()
    try {
      return await dataAgeMs(store, this.#clock(), this.#timeoutMs)
    } catch (error) {
      throw mongodbError(error)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    this.#claims.clear()
    // Whoever was opening meanwhile finds the driver closed, and lets go of what it opened.
    await this.#opening.settled()
    const store = this.#store
    this.#store = undefined
    await Promise.all([this.#poller?.close(), this.#stream?.close(), this.#indexing])
    await store?.close()
  }

  // ---- the way to the collection

  async #opened(): Promise<MongoStore> {
    this.#refuseIfClosed()
    if (this.#store !== undefined) return this.#store
    return this.#opening.opened()
  }

  async #open(): Promise<MongoStore> {
    const { collection = defaults.collection, database, readConcern, changeStream } = this.#options
    const store = await MongoStore.open(this.#source, { collection, database, readConcern }, this.#timeoutMs)
    if (this.#closed) {
      await store.close()
      this.#refuseIfClosed()
    }
    // Not waited for: a lock needs no tidy collection.
    this.#indexing = ensureTtlIndex(store, this.#timeoutMs)
    const poller = new QueuePoller({
      store,
      channel: this.#channel,
      claims: this.#claims,
      pace: this.#pace,
      mustPoll: () => this.#mustPoll,
      poll: (key, id) => this.#listeners.notify(key, id, 'poll'),
    })
    this.#poller = poller
    if (store.watchable && changeStream !== false) {
      this.#stream = new ChangeStreamListener({
        store,
        channel: this.#channel,
        onNotification: (key, id, status) => this.#listeners.notify(key, id, status),
        onStart: () => poller.pollAll(),
      })
    }
    if (store.isRouted) this.warnings = [routedClocks]
    this.#store = store
    return store
  }

  /** The server's time, as a date. */
  #clock(): Expression {
    const { clockForTests } = this.#options
    return clockForTests === undefined ? '$$NOW' : { $literal: new Date(clockForTests()) }
  }

  /** Our own time, for how long ago something was. */
  #ownTime(): number {
    return this.#options.clockForTests?.() ?? performance.now()
  }

  // ---- news

  #keepTrack(requests: readonly Request[], statuses: readonly ClaimStatus[], sentAt: number): void {
    if (this.#closed) return
    const { keys, found } = this.#claims.note(requests, statuses, sentAt)
    // Who found out by asking may not have heard all: news is for hearing, and a nudge costs little.
    if (found.length > 0 && this.#mustPoll) {
      queueMicrotask(() => found.forEach(({ key, id }) => this.#listeners.notify(key, id, 'poll')))
    }
    if (keys.length === 0) return
    this.#stream?.start()
    this.#poller?.watch(keys)
  }

  /** Whether news does not come by itself. */
  get #mustPoll(): boolean {
    return this.#stream?.isLive !== true
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw new LeaseholdError('CLOSED', 'This MongoDB store has been closed.')
  }
}

function paceOf({ waitMin, waitMax, adaptive = true }: MongodbOptions): PollPace {
  const minMs = timerMs(waitMin ?? defaults.waitMin, 'waitMin')
  const maxMs = timerMs(waitMax ?? Math.max(defaults.waitMax, minMs), 'waitMax')
  if (minMs <= maxMs) return { minMs, maxMs, adaptive }
  throw new LeaseholdError('INVALID', `waitMin is ${minMs} ms, more than waitMax, ${maxMs} ms.`)
}
