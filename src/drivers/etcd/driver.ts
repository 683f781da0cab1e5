/**
 * Locks in etcd, 3.4 or newer: one node, or a cluster.
 *
 * One document a key, changed by a transaction that compares its revision, around the rule of `admission.ts`. etcd has no
 * clock to ask: beside the document each claim has a marker on an etcd lease, and is alive while its marker is there.
 * Notifications come by a watch.
 */
import { randomBytes } from 'node:crypto'
import { keyOf } from '../../core/contract/requests.ts'
import { sendOnDocuments, type DocumentSender } from '../document/document-send.ts'
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
import { fullSupport, leaseDefaults } from '../../core/contract/supports.ts'
import { Lifecycle } from '../kit/lifecycle.ts'
import { Listeners } from '../kit/listeners.ts'
import { timerMs, type Duration } from '../../core/time/duration.ts'
import { systemEnvironment } from '../../core/time/environment.ts'
import { parseEtcdUrl } from './rpc/address.ts'
import { BatchedTransactions } from './batched-transactions.ts'
import { DataAge } from './leases/data-age.ts'
import { etcdError } from './rpc/errors.ts'
import { GarbageLease } from './leases/garbage-lease.ts'
import { EtcdKeyspace } from './keyspace.ts'
import { RecentKeys, testLeaseSeconds, type KeyReading } from './key-reading.ts'
import type { LeasesForTests } from './test-leases.ts'
import { Leases } from './leases/leases.ts'
import { EtcdClient } from './rpc/client.ts'
import { etcdPage } from './listing.ts'
import { NotificationWatch } from './notification-watch.ts'
import { calls, statusReply, leaseWarning } from './rpc/messages.ts'
import { endUnrenewed } from './leases/unrenewed.ts'
import { ClaimKeeper, type EndClaims } from './leases/claim-keeper.ts'
import { EtcdSend, type EtcdSendSetup } from './send.ts'
import { LivenessCheck } from './leases/liveness-check.ts'
import { sweep } from './sweep.ts'
import type { ConnectionOptions } from 'node:tls'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'

export type { KnownTimes, LeasesForTests } from './test-leases.ts'

/**
 * A lock store in etcd: `etcd://[user:password@]host[:2379][,host…][/PREFIX]`, or `etcds://…` for TLS.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { etcd } from 'leasehold/etcd'
 *
 * await using locks = await createLocks({ driver: etcd('etcd://127.0.0.1:2379/shop/') })
 * ```
 */
export function etcd(url: string, options: EtcdOptions = {}): LockDriver {
  checkEtcdOptions(options)
  return new EtcdDriver(url, options)
}

class EtcdDriver implements LockDriver {
  readonly name = 'etcd'
  readonly supports: Supports
  warnings: readonly string[] = []
  readonly #timeoutMs: number
  readonly #forTests: LeasesForTests | undefined
  readonly #keyspace: EtcdKeyspace
  readonly #environment = systemEnvironment()
  readonly #listeners = new Listeners()
  readonly #client: EtcdClient
  readonly #leases: Leases
  readonly #transactions: BatchedTransactions
  readonly #garbage: GarbageLease
  readonly #dataAge: DataAge
  readonly #claims: ClaimKeeper
  readonly #notifications: NotificationWatch
  readonly #liveness: LivenessCheck
  readonly #setup: EtcdSendSetup
  readonly #lifecycle = new Lifecycle<true>('This etcd store', () => this.#open())
  readonly #sender: DocumentSender<true, KeyReading>
  #sweeping: Promise<void> | undefined

  constructor(url: string, options: EtcdOptions) {
    const address = parseEtcdUrl(url)
    this.#forTests = options.leasesForTests
    this.#timeoutMs = timerMs(options.timeout ?? defaults.timeout, 'timeout')
    this.#keyspace = new EtcdKeyspace(options.prefix ?? address.prefix ?? defaults.prefix)
    this.supports = { ...etcdSupport, ...leaseDefaults(options) }
    const keyspace = this.#keyspace
    const ownTime = (): number => this.#environment.now()
    const wall = (): number => this.#forTests?.now() ?? this.#environment.wall()
    const recent = new RecentKeys()
    const channel = randomBytes(9).toString('base64url')
    this.#client = new EtcdClient({
      address,
      tls: address.tls ? { ...options.tls } : undefined,
      healthKey: keyspace.document(''),
      timeoutMs: this.#timeoutMs,
      now: ownTime,
      // A store that was restored counts its revisions from an earlier one again: a remembered revision may come twice.
      connected: () => recent.clear(),
    })
    const secondsFor = (ttlMs: number): number => (this.#forTests ? testLeaseSeconds : Math.ceil(ttlMs / 1000))
    this.#leases = new Leases({ client: this.#client, now: ownTime, secondsFor })
    this.#transactions = new BatchedTransactions(this.#client, this.#leases)
    this.#garbage = new GarbageLease(this.#client, ownTime, wall)
    this.#dataAge = new DataAge({ client: this.#client, keyspace, timeoutMs: this.#timeoutMs })
    const unrenewed = {
      transactions: this.#transactions,
      keyspace,
      leases: this.#leases,
      garbage: this.#garbage,
      timeoutMs: this.#timeoutMs,
    }
    const end: EndClaims | undefined = this.#forTests ? undefined : (claims) => endUnrenewed(unrenewed, claims)
    this.#claims = new ClaimKeeper(this.#environment, end)
    this.#liveness = new LivenessCheck({
      transactions: this.#transactions,
      keyspace,
      leases: this.#leases,
      garbage: this.#garbage,
      environment: this.#environment,
      term: () => this.#client.term,
      timeoutMs: this.#timeoutMs,
    })
    this.#notifications = new NotificationWatch({
      client: this.#client,
      keyspace,
      channel,
      claims: this.#claims,
      onNotification: (key, id, status) => this.#onNotification(key, id, status),
      poll: (key, id) => this.#listeners.notify(key, id, 'poll'),
      onGap: () => this.#listeners.gap(),
    })
    const setup: EtcdSendSetup = {
      transactions: this.#transactions,
      session: () => this.#client.session(),
      keyspace,
      leases: this.#leases,
      garbage: this.#garbage,
      claims: this.#claims,
      recent,
      channel,
      wall,
      ownTime,
      takeNotification: (key) => this.#notifications.takeNotification(key),
      forTests: this.#forTests,
      timeoutMs: this.#timeoutMs,
      settled: (send, requests, statuses) => this.#settled(send, requests, statuses),
    }
    this.#setup = setup
    this.#sender = {
      supports: this.supports,
      lifecycle: this.#lifecycle,
      environment: this.#environment,
      requestsPerKeyMax,
      begin: (_opened, requests) => new EtcdSend(setup, requests),
      errorOf: etcdError,
    }
  }

  /** Proves each time that a node answers. */
  async open(): Promise<void> {
    await this.#lifecycle.opened()
    await this.#client.session().catch((error: unknown) => {
      throw etcdError(error)
    })
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return sendOnDocuments(this.#sender, requests)
  }

  async list(query: ListQuery): Promise<KeyPage> {
    this.#lifecycle.refuseIfShut()
    const { transactions, keyspace, wall, forTests } = this.#setup
    try {
      return await etcdPage(
        { client: this.#client, transactions, keyspace, wall, forTests, timeoutMs: this.#timeoutMs },
        query,
      )
    } catch (error) {
      throw etcdError(error)
    }
  }

  listen(onNotification: OnNotification, onGap?: OnGap): Disposable {
    return this.#listeners.listen(onNotification, onGap)
  }

  async dataAgeMs(): Promise<number> {
    await this.open()
    try {
      return await this.#dataAge.ms()
    } catch (error) {
      throw etcdError(error)
    }
  }

  async close(): Promise<void> {
    this.#lifecycle.shut()
    this.#listeners.clear()
    this.#claims.clear()
    this.#notifications.close()
    this.#liveness.close()
    await this.#client.close()
    await this.#lifecycle.settled()
    await this.#sweeping
  }

  async #open(): Promise<true> {
    try {
      await this.#client.session()
    } catch (error) {
      throw etcdError(error)
    }
    // A node that does not tell its version is used all the same.
    const status = await this.#client.call(calls.status, Buffer.alloc(0), this.#timeoutMs).catch(() => undefined)
    const warning = status === undefined ? undefined : leaseWarning(statusReply.read(status.data).version)
    if (warning !== undefined) this.warnings = [warning]
    // Not waited for: a lock needs no swept store.
    this.#sweeping = sweep({
      client: this.#client,
      transactions: this.#transactions,
      keyspace: this.#keyspace,
      garbage: this.#garbage,
      send: (requests) => this.send(requests),
      isClosed: () => this.#lifecycle.isShut,
      timeoutMs: this.#timeoutMs,
    })
    return true
  }

  // ---- what became of requests

  #settled(send: EtcdSend, requests: readonly Request[], statuses: readonly ClaimStatus[] | undefined): void {
    if (this.#lifecycle.isShut) return
    this.#claims.note(requests, statuses, (request) => send.leaseOf(request), send.sentAt)
    if (statuses === undefined) return
    this.#follow(requests, statuses, send)
    const { notifications } = send
    if (notifications.length === 0) return
    // Deferred: an owner must know the answer first, that its claim was let in, to understand that it was evicted by the same send.
    this.#environment.defer(() => {
      for (const { key, record, status } of notifications) {
        const { id } = record.claim
        if (send.isAbout(id) || this.#claims.find(id) !== undefined) this.#onNotification(key, id, status)
      }
    })
  }

  /** Watches the keys that claims of ours wait for, and no others. */
  #follow(requests: readonly Request[], statuses: readonly ClaimStatus[], send: EtcdSend): void {
    for (const [index, request] of requests.entries()) {
      const { state } = statuses[index] as ClaimStatus
      if (state === 'held' || state === 'waiting') this.#notifications.start(this.#client.revision)
      const key = keyOf(request)
      const waiting = this.#claims.waitingFor(key)
      if (waiting.length > 0) {
        this.#notifications.follow(key, send.seenAt(key))
        this.#liveness.check(key, send.readingFor(key), waiting)
      } else {
        this.#notifications.unfollow(key)
        this.#liveness.forget(key)
      }
    }
  }

  /** Passes on what became of a claim of ours, with no more time than is sure. */
  #onNotification(key: string, id: string, status: ClaimStatus): void {
    if (this.#lifecycle.isShut) return
    const own = this.#claims.find(id)
    this.#claims.onNotification(id, status)
    if (status.state !== 'held' || (own !== undefined && this.#forTests !== undefined)) {
      this.#listeners.notify(key, id, status)
      return
    }
    if (own === undefined) {
      this.#listeners.notify(key, id, 'poll')
      return
    }
    const replaced = own.replaces === undefined ? undefined : this.#claims.find(own.replaces)
    const leases = [own.lease, ...(replaced === undefined ? [] : [replaced.lease])]
    const leftMs = Math.min(...leases.map((lease) => this.#leases.leftMs(lease) ?? 0))
    const ttlMs = Math.floor(Math.min(status.ttlMs, own.trustedUntil - this.#environment.now(), leftMs))
    this.#listeners.notify(key, id, ttlMs > 0 ? { ...status, ttlMs } : 'poll')
  }
}

/** Requests for one key in one transaction: each may put a marker, and etcd does only so much at once. */
const requestsPerKeyMax = 40

/** Without a clock of the store nothing can depend on how long ago something was. */
const etcdSupport: Supports = {
  ...fullSupport,
  evict: ['lower-priority', 'same-runner', 'all'],
  grace: false,
  maxHold: false,
  renewals: false,
  ttlMinMs: 100,
}

/** The options of `etcd`. */
export interface EtcdOptions {
  /**
   * What every key begins with; in a URL: its path, or `?prefix=`.
   *
   * @default 'leasehold/'
   */
  readonly prefix?: string | undefined
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
   * How long one `send` may take, retries included; where short leases are renewed, a third of their ttl at most.
   *
   * @default '5s'
   */
  readonly timeout?: Duration | undefined
  /** With `etcds:`, and beside what Node trusts anyway: the authority, and a certificate and key of our own. */
  readonly tls?: Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'passphrase' | 'servername'> | undefined
  /** For tests that move time: they end claims, not etcd. All drivers of one store must share it. */
  readonly leasesForTests?: LeasesForTests | undefined
}

const etcdNames: OptionNames<EtcdOptions> = {
  prefix: true,
  ttl: true,
  heartbeat: true,
  timeout: true,
  tls: true,
  leasesForTests: true,
}

const tlsNames: OptionNames<NonNullable<EtcdOptions['tls']>> = {
  ca: true,
  cert: true,
  key: true,
  passphrase: true,
  servername: true,
}

/** The defaults of {@link EtcdOptions}. @internal */
export const defaults = { prefix: 'leasehold/', timeout: 5000 } as const

/** Refuses misspelt options. @internal */
export function checkEtcdOptions(options: EtcdOptions): void {
  checkOptions(options, etcdNames, 'etcd')
  checkOptions(options.tls, tlsNames, 'tls')
}
