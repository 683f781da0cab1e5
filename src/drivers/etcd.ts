/**
 * Locks in etcd, 3.4 or newer: one node, or a cluster.
 *
 * One document a key, changed by a transaction that compares its revision, around the rule of `admission.ts`. etcd has no
 * clock to ask: beside the document each claim has a marker on an etcd lease, and is alive while its marker is there. What
 * is pushed comes by a watch.
 */
import { randomBytes } from 'node:crypto'
import { keyOf } from '../core/batcher.ts'
import { sendBySwapping } from '../core/document-swaps.ts'
import type { OnNotification, KeyPage, ListQuery, LockDriver, Request, ClaimStatus, Supports } from '../core/driver.ts'
import { LeaseholdError } from '../core/errors.ts'
import { fullSupport } from '../core/full-support.ts'
import { leaseDefaults } from '../core/lease-defaults.ts'
import { withinLimits } from '../core/limits.ts'
import { Listeners } from '../core/listeners.ts'
import { timerMs } from '../core/time/duration.ts'
import { systemEnvironment } from '../core/time/environment.ts'
import { sendTimeoutFor } from '../core/time/send-timeout.ts'
import { parseAddress } from './etcd/address.ts'
import { BatchedTransactions } from './etcd/batched-transactions.ts'
import { DataAge } from './etcd/data-age.ts'
import { faultOf } from './etcd/faults.ts'
import { GarbageLease } from './etcd/garbage-lease.ts'
import { Keyspace } from './etcd/keyspace.ts'
import { testLeaseSeconds, type LeasesForTests } from './etcd/leases-for-tests.ts'
import { Leases } from './etcd/leases.ts'
import { Line } from './etcd/line.ts'
import { listPage } from './etcd/listing.ts'
import { NotificationWatch } from './etcd/notification-watch.ts'
import { calls, readVersion } from './etcd/messages.ts'
import { checkEtcdOptions, defaults, type EtcdOptions } from './etcd/options.ts'
import { endUnrenewed } from './etcd/unrenewed.ts'
import { OwnClaims, type EndClaims } from './etcd/own-claims.ts'
import { RecentKeys } from './etcd/recent-keys.ts'
import { sendInSlices } from './etcd/requests.ts'
import { Sending, type SendingSetup } from './etcd/sending.ts'
import { leaseFaultIn } from './etcd/server-version.ts'
import { SignsOfLife } from './etcd/sign-of-life.ts'
import { sweep } from './etcd/sweep.ts'

export type { KnownTimes, LeasesForTests } from './etcd/leases-for-tests.ts'
export type { EtcdOptions } from './etcd/options.ts'

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
  readonly #keyspace: Keyspace
  readonly #environment = systemEnvironment()
  readonly #listeners = new Listeners()
  readonly #line: Line
  readonly #leases: Leases
  readonly #transactions: BatchedTransactions
  readonly #garbage: GarbageLease
  readonly #dataAge: DataAge
  readonly #claims: OwnClaims
  readonly #notifications: NotificationWatch
  readonly #signs: SignsOfLife
  readonly #sending: SendingSetup
  #sweeping: Promise<void> | undefined
  #isVersionRead = false
  #closed = false

  constructor(url: string, options: EtcdOptions) {
    const address = parseAddress(url)
    this.#forTests = options.leasesForTests
    this.#timeoutMs = timerMs(options.timeout ?? defaults.timeout, 'timeout')
    this.#keyspace = new Keyspace(options.prefix ?? address.prefix ?? defaults.prefix)
    this.supports = { ...etcdSupport, ...leaseDefaults(options) }
    const keyspace = this.#keyspace
    const ownTime = (): number => this.#environment.now()
    const wall = (): number => this.#forTests?.now() ?? this.#environment.wall()
    const recent = new RecentKeys()
    const channel = randomBytes(9).toString('base64url')
    this.#line = new Line({
      address,
      tls: address.tls ? { ...options.tls } : undefined,
      probe: keyspace.document(''),
      timeoutMs: this.#timeoutMs,
      now: ownTime,
      // A store that was restored counts its revisions from an earlier one again: a remembered revision may come twice.
      connected: () => recent.clear(),
    })
    const secondsFor = (ttlMs: number): number => (this.#forTests ? testLeaseSeconds : Math.ceil(ttlMs / 1000))
    this.#leases = new Leases({ line: this.#line, now: ownTime, secondsFor })
    this.#transactions = new BatchedTransactions(this.#line, this.#leases)
    this.#garbage = new GarbageLease(this.#line, ownTime, wall)
    this.#dataAge = new DataAge({ line: this.#line, keyspace, timeoutMs: this.#timeoutMs })
    const unrenewed = {
      transactions: this.#transactions,
      keyspace,
      leases: this.#leases,
      garbage: this.#garbage,
      timeoutMs: this.#timeoutMs,
    }
    const end: EndClaims | undefined = this.#forTests ? undefined : (claims) => endUnrenewed(unrenewed, claims)
    this.#claims = new OwnClaims(this.#environment, end)
    this.#signs = new SignsOfLife({
      transactions: this.#transactions,
      keyspace,
      leases: this.#leases,
      garbage: this.#garbage,
      environment: this.#environment,
      term: () => this.#line.term,
      timeoutMs: this.#timeoutMs,
    })
    this.#notifications = new NotificationWatch({
      line: this.#line,
      keyspace,
      channel,
      claims: this.#claims,
      onNotification: (key, id, status) => this.#onNotification(key, id, status),
      ask: (key, id) => this.#listeners.notify(key, id, 'poll'),
    })
    this.#sending = {
      transactions: this.#transactions,
      session: () => this.#line.session(),
      keyspace,
      leases: this.#leases,
      garbage: this.#garbage,
      claims: this.#claims,
      recent,
      channel,
      wall,
      ownTime,
      hasNotification: (key) => this.#notifications.takeNotification(key),
      forTests: this.#forTests,
    }
  }

  async open(): Promise<void> {
    this.#refuseIfClosed()
    try {
      await this.#line.session()
    } catch (error) {
      this.#refuseIfClosed()
      throw faultOf(error)
    }
    await this.#readVersion()
    // Not waited for: a lock needs no tidy store.
    this.#sweeping ??= sweep({
      line: this.#line,
      transactions: this.#transactions,
      keyspace: this.#keyspace,
      garbage: this.#garbage,
      send: (requests) => this.send(requests),
      isClosed: () => this.#closed,
      timeoutMs: this.#timeoutMs,
    })
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  async #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    this.#refuseIfClosed()
    return sendInSlices(requests, (slice) => this.#send(slice))
  }

  async list(query: ListQuery): Promise<KeyPage> {
    this.#refuseIfClosed()
    const { transactions, keyspace, wall, forTests } = this.#sending
    try {
      return await listPage(
        { line: this.#line, transactions, keyspace, wall, forTests, timeoutMs: this.#timeoutMs },
        query,
      )
    } catch (error) {
      throw faultOf(error)
    }
  }

  listen(onNotification: OnNotification): Disposable {
    return this.#listeners.listen(onNotification)
  }

  async dataAgeMs(): Promise<number> {
    await this.open()
    try {
      return await this.#dataAge.ms()
    } catch (error) {
      throw faultOf(error)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    this.#claims.clear()
    this.#notifications.close()
    this.#signs.close()
    await this.#line.close()
    await this.#sweeping
  }

  /** A node that does not tell its version is used all the same. */
  async #readVersion(): Promise<void> {
    if (this.#isVersionRead) return
    this.#isVersionRead = true
    const status = await this.#line.call(calls.status, Buffer.alloc(0), this.#timeoutMs).catch(() => undefined)
    const fault = status === undefined ? undefined : leaseFaultIn(readVersion(status.data))
    if (fault !== undefined) this.warnings = [fault]
  }

  // ---- requests

  async #send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const sending = new Sending(
      this.#sending,
      requests,
      this.#environment.now() + sendTimeoutFor(requests, this.#timeoutMs),
    )
    let statuses: readonly ClaimStatus[] | undefined
    const sentAt = this.#environment.now()
    await this.#claims.begin(requests)
    try {
      await sending.prepare()
      statuses = await sendBySwapping(sending, requests, this.#environment)
    } catch (error) {
      throw faultOf(error)
    } finally {
      if (!this.#closed) this.#claims.note(requests, statuses, (request) => sending.leaseOf(request), sentAt)
    }
    this.#follow(requests, statuses, sending)
    const { notifications } = sending
    // Afterwards: one that was let in and turned out again by the same send must know of the first to understand the second.
    if (notifications.length > 0) {
      this.#environment.defer(() => {
        for (const { key, record, status } of notifications) {
          const { id } = record.claim
          if (sending.isAbout(id) || this.#claims.find(id) !== undefined) this.#onNotification(key, id, status)
        }
      })
    }
    return statuses.map((status, index) => sending.sure(requests[index] as Request, status))
  }

  // ---- news

  #follow(requests: readonly Request[], statuses: readonly ClaimStatus[], sending: Sending): void {
    if (this.#closed) return
    for (const [index, request] of requests.entries()) {
      const { state } = statuses[index] as ClaimStatus
      if (state === 'held' || state === 'waiting') this.#notifications.start(this.#line.revision)
      const key = keyOf(request)
      const waiting = this.#claims.waitingFor(key)
      if (waiting.length > 0) {
        this.#notifications.follow(key, sending.seenAt(key))
        this.#signs.look(key, sending.readingFor(key), waiting)
      } else {
        this.#notifications.unfollow(key)
        this.#signs.forget(key)
      }
    }
  }

  /** Tells what became of a claim of ours, with no more time than is sure. */
  #onNotification(key: string, id: string, status: ClaimStatus): void {
    if (this.#closed) return
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

  #refuseIfClosed(): void {
    if (this.#closed) throw new LeaseholdError('CLOSED', 'This etcd store has been closed.')
  }
}

/** Without a clock of the store nothing can be told by how long ago it was. */
const etcdSupport: Supports = {
  ...fullSupport,
  evict: ['lower-priority', 'same-runner', 'all'],
  grace: false,
  maxHold: false,
  renewals: false,
  ttlMinMs: 100,
}
