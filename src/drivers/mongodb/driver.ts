/**
 * Locks in a MongoDB collection, 4.4 or newer: a server alone, a replica set, or a sharded cluster.
 *
 * One document a key. A claim on a key nobody wants, and the renewal and release of its holder, are one `findOneAndUpdate`
 * each, by the server's clock; all else is compare-and-swap around the rule of `admission.ts`. Every write is with a
 * majority before it is answered. Other processes are notified by a change stream, or else poll.
 */
import { randomBytes } from 'node:crypto'
import { sendOnDocuments, type DocumentSender } from '../document/document-send.ts'
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
import { Lifecycle } from '../kit/lifecycle.ts'
import { Listeners } from '../kit/listeners.ts'
import { checkOptions, type OptionNames, withDefaults } from '../../core/contract/option-names.ts'
import type { MongoSource } from './client.ts'
import type { ReadConcern } from './concerns.ts'
import { dataAgeMs } from './data-age.ts'
import { mongodbError } from './errors.ts'
import { ensureTtlIndex, MongoStore } from './store.ts'
import { mongodbPage } from './listing.ts'
import { QueuePoller, type PollPace } from '../kit/queue-poller.ts'
import { ChangeStreamListener } from './change-stream-listener.ts'
import { ClaimRegister } from '../kit/claim-register.ts'
import { storedPlaces } from './stored-places.ts'
import type { Expression } from './fast-path.ts'
import { MongodbSend, type MongodbSendSetup, type Revision } from './send.ts'

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
   * The least pause between two polls of a key that is waited for, where changes cannot be watched.
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
   * False: poll instead of watching changes, and spare the connection.
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
  checkOptions(options, mongodbNames, 'mongodb', prefixHint)
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
  /** Names this driver on every claim that it keeps. */
  readonly #channel = randomBytes(9).toString('base64url')
  readonly #claims = new ClaimRegister()
  readonly #listeners = new Listeners()
  readonly #lifecycle = new Lifecycle<MongoStore>(
    'This MongoDB store',
    () => this.#open(),
    (store) => store.close(),
  )
  readonly #sender: DocumentSender<MongoStore, Revision>
  #poller: QueuePoller | undefined
  #stream: ChangeStreamListener | undefined
  #indexing: Promise<void> | undefined

  constructor(source: MongoSource, options: MongodbOptions) {
    const fromUrl = typeof source === 'string' ? mongodbParameters(source) : undefined
    this.#source = fromUrl?.url ?? source
    this.#options = withDefaults<MongodbOptions>(fromUrl?.options ?? {}, options)
    this.#timeoutMs = timerMs(options.timeout ?? defaults.timeout, 'timeout')
    this.#pace = paceOf(options)
    this.supports = { ...fullSupport, ...leaseDefaults(options) }
    let revisions = 0
    const setup: MongodbSendSetup = {
      channel: this.#channel,
      clock: () => this.#clock(),
      newRevision: () => `${this.#channel}${(revisions += 1)}`,
      notify: (key, id, status) => this.#listeners.notify(key, id, status),
      isOwn: (key, id) => this.#claims.has(key, id),
      isContended: (key) => this.#claims.waitsFor(key),
      mayWithdraw: (key, id) => this.#claims.isSafe(key, id, this.#ownTime()),
      timeoutMs: this.#timeoutMs,
      ownTime: () => this.#ownTime(),
      settled: (requests, statuses, sentAt) => this.#settled(requests, statuses, sentAt),
    }
    this.#sender = {
      supports: this.supports,
      lifecycle: this.#lifecycle,
      environment: systemEnvironment(),
      begin: (store, sent) => new MongodbSend(setup, store, sent),
      errorOf: mongodbError,
    }
  }

  async open(): Promise<void> {
    await this.#lifecycle.opened()
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return sendOnDocuments(this.#sender, requests)
  }

  async list(query: ListQuery): Promise<KeyPage> {
    const store = await this.#lifecycle.opened()
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
    const store = await this.#lifecycle.opened()
    try {
      return await dataAgeMs(store, this.#clock(), this.#timeoutMs)
    } catch (error) {
      throw mongodbError(error)
    }
  }

  async close(): Promise<void> {
    const store = this.#lifecycle.shut()
    this.#listeners.clear()
    this.#claims.clear()
    // An attempt to open that is under way finds the driver shut, and closes what it opened.
    await this.#lifecycle.settled()
    await Promise.all([this.#poller?.close(), this.#stream?.close(), this.#indexing])
    await store?.close()
  }

  async #open(): Promise<MongoStore> {
    const { collection = defaults.collection, database, readConcern, changeStream } = this.#options
    const store = await MongoStore.open(this.#source, { collection, database, readConcern }, this.#timeoutMs)
    if (this.#lifecycle.isShut) return store
    // Not waited for: a lock needs no index.
    this.#indexing = ensureTtlIndex(store, this.#timeoutMs)
    const poller = new QueuePoller({
      claims: this.#claims,
      pace: this.#pace,
      environment: systemEnvironment(),
      read: (keys) => storedPlaces(store, this.#channel, keys),
      mustPoll: () => this.#mustPoll,
      poll: (key, id) => this.#listeners.notify(key, id, 'poll'),
      ownTime: () => this.#ownTime(),
    })
    this.#poller = poller
    if (store.watchable && changeStream !== false) {
      this.#stream = new ChangeStreamListener({
        store,
        channel: this.#channel,
        onNotification: (key, id, status) => this.#listeners.notify(key, id, status),
        // No gap: one read of all keys finds the claims that changed, where each poll of a waiter is a majority write.
        onStart: () => poller.pollAll(),
      })
    }
    if (store.isRouted) this.warnings = [routedClocks]
    return store
  }

  /** The server's time, as a date. */
  #clock(): Expression {
    const { clockForTests } = this.#options
    return clockForTests === undefined ? '$$NOW' : { $literal: new Date(clockForTests()) }
  }

  /** The clock of this process, for how long ago something was. */
  #ownTime(): number {
    return this.#options.clockForTests?.() ?? performance.now()
  }

  // ---- notifications

  #settled(requests: readonly Request[], statuses: readonly ClaimStatus[], sentAt: number): void {
    if (this.#lifecycle.isShut) return
    const { keys, found } = this.#claims.note(requests, statuses, sentAt)
    // An owner that learnt of a change by asking may not know all of it: a poll of its claim costs little.
    if (found.length > 0 && this.#mustPoll) {
      queueMicrotask(() => found.forEach(({ key, id }) => this.#listeners.notify(key, id, 'poll')))
    }
    if (keys.length === 0) return
    this.#stream?.start()
    this.#poller?.watch(keys)
  }

  /** Whether no notification would arrive by the change stream. */
  get #mustPoll(): boolean {
    return this.#stream?.isLive !== true
  }
}

function paceOf({ waitMin, waitMax, adaptive = true }: MongodbOptions): PollPace {
  const minMs = timerMs(waitMin ?? defaults.waitMin, 'waitMin')
  const maxMs = timerMs(waitMax ?? Math.max(defaults.waitMax, minMs), 'waitMax')
  if (minMs <= maxMs) return { minMs, maxMs, adaptive }
  throw new LeaseholdError('INVALID', `waitMin is ${minMs} ms, more than waitMax, ${maxMs} ms.`)
}

/** What a prefix is in Redis and etcd is a collection here. */
const prefixHint = { prefix: "It is 'collection' here." }

/** What a URL says to us beside what it says to the client, and the URL without it: by text, as several hosts make it no plain URL. @internal */
export function mongodbParameters(url: string): { readonly url: string; readonly options: { collection?: string } } {
  const [address = '', query] = url.split(/\?(.*)/s, 2)
  const parameters = new URLSearchParams(query)
  if (parameters.has('prefix')) {
    throw new LeaseholdError('INVALID', `The URL of this store takes no ?prefix=. ${prefixHint.prefix}`)
  }
  const collection = parameters.get('collection')
  if (query === undefined || collection === null || collection === '') return { url, options: {} }
  const rest = query.split('&').filter((parameter) => !parameter.startsWith('collection='))
  return { url: rest.length === 0 ? address : `${address}?${rest.join('&')}`, options: { collection } }
}
