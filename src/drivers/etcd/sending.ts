/**
 * One `send`. A key is read with its markers, the rule is run, and what comes of it is written in one transaction, if the
 * document is as it was read; where it is not, the same round trip brings it as it is. Many keys go in one transaction.
 */
import type { RecordChange, NotifiedClaim } from '../../core/rule/admission.ts'
import { keyOf } from '../../core/contract/requests.ts'
import type { DocumentSwapper, Loaded, Swap } from '../document/document-swaps.ts'
import type { Request, ClaimStatus } from '../../core/contract/driver.ts'
import type { KeyDocument } from '../document/key-document.ts'
import type { BatchedTransactions, Found } from './batched-transactions.ts'
import { faultOf, isLeaseGone, isRefused } from './faults.ts'
import type { LeasesForTests } from './leases-for-tests.ts'
import { idOf } from './own-claims.ts'
import { foundReading, nobody, readingOf, recordsOf, withTimes, type Reading } from './reading.ts'
import type { RecentKeys } from './recent-keys.ts'
import { Writing, type WritingSetup, type Written } from './writing.ts'

/** What is the same for every send of a driver. */
export interface SendingSetup extends WritingSetup {
  readonly transactions: BatchedTransactions
  /** The connection there is, or a new one. A revision that was read over another may be of a store since restored. */
  readonly session: () => Promise<unknown>
  readonly recent: RecentKeys
  /** The time for people: etcd has none to ask for. */
  readonly wall: () => number
  /** The clock of this process, by which leases are trusted. */
  readonly ownTime: () => number
  readonly forTests: LeasesForTests | undefined
}

export class Sending implements DocumentSwapper<Reading> {
  readonly #setup: SendingSetup
  readonly #requests: readonly Request[]
  readonly #byId: ReadonlyMap<string, Request>
  readonly #writing: Writing
  /** The request for a key; undefined: there are several. */
  readonly #only = new Map<string, Request | undefined>()
  /** On the clock of this process: nothing is waited for any longer. */
  readonly #deadline: number
  /** Keys as they were when they were last read, or are guessed to be. */
  readonly #readings = new Map<string, Reading>()
  /** What the last round has brought, not yet looked at. */
  readonly #fresh = new Map<string, Reading>()
  readonly #notifications: (NotifiedClaim & { readonly key: string })[] = []
  readonly #guessed = new Set<string>()
  #mayGuess = true
  /** The connection over which `#readings` were read. */
  #session: unknown

  constructor(setup: SendingSetup, requests: readonly Request[], deadline: number) {
    this.#setup = setup
    this.#requests = requests
    this.#deadline = deadline
    this.#byId = new Map(requests.map((request) => [idOf(request) ?? '', request]))
    this.#writing = new Writing(setup, this.#byId, () => this.#leftMs())
    for (const request of requests) {
      const key = keyOf(request)
      this.#only.set(key, this.#only.has(key) ? undefined : request)
    }
  }

  /** Makes sure of the leases that claims are to live on. Rejects only if nothing was sent. */
  async prepare(): Promise<void> {
    const ttls = new Set<number>()
    for (const request of this.#requests) {
      // Who is to outlive its process gets a lease of its own, once it is written down.
      if (request.op === 'claim' && request.claim.detached !== true) ttls.add(request.claim.ttlMs)
      else if (request.op === 'renew' && request.detached !== true) ttls.add(request.ttlMs)
    }
    await Promise.all(Array.from(ttls, (ttlMs) => this.#setup.leases.secure(ttlMs, this.#leftMs())))
  }

  /** The status with no more time than is sure: etcd's leases are what ends claims. */
  sure(request: Request, status: ClaimStatus): ClaimStatus {
    if (status.state !== 'held' || this.#setup.forTests !== undefined) return status
    const isQuestioned = this.#readings.get(keyOf(request))?.questioned?.has(idOf(request) ?? '') === true
    // Whoever may be taken for dead must renew before it is told more.
    if (isQuestioned) return { ...status, ttlMs: 1 }
    const lease = this.leaseOf(request)
    // On a lease of somebody else: how long that lasts nobody here can say.
    const leftMs = this.#setup.leases.leftMs(lease) ?? 0
    return { ...status, ttlMs: Math.max(1, Math.floor(Math.min(status.ttlMs, leftMs))) }
  }

  /** The etcd lease that the claim of a request is on by now; 0: none that is known. */
  leaseOf(request: Request): number {
    return this.#readings.get(keyOf(request))?.markers.get(idOf(request) ?? '') ?? 0
  }

  /** A key as it was when it was last read or written; undefined: it was not. */
  readingFor(key: string): Reading | undefined {
    return this.#readings.get(key)
  }

  /** What the store had come to when it was seen who lives at a key. */
  seenAt(key: string): number {
    return this.#readings.get(key)?.seenAt ?? 0
  }

  /** What has become of claims besides those that were asked about. */
  get notifications(): readonly (NotifiedClaim & { readonly key: string })[] {
    return this.#notifications
  }

  /** Whether a request of this send is about the claim. */
  isAbout(id: string): boolean {
    return this.#byId.has(id)
  }

  // ---- reading

  async load(keys: readonly string[]): Promise<{ now: number; wall: number; loaded: Loaded<Reading>[] }> {
    try {
      const session = await this.#setup.session()
      if (session !== this.#session) this.#fresh.clear()
      this.#session = session
      // After the connection is there: a new one makes the driver forget what it could guess by.
      const unread = keys.filter((key) => !this.#fresh.has(key) && !this.#guess(key))
      this.#mayGuess = false
      await this.#read(unread)
    } catch (error) {
      throw faultOf(error)
    }
    const wall = this.#setup.wall()
    const now = Math.floor(wall)
    const loaded = keys.map((key) => {
      const reading = this.#fresh.get(key) ?? nobody
      this.#readings.set(key, reading)
      return { document: this.#timed(key, reading, now), revision: reading, isGuess: this.#guessed.has(key) }
    })
    this.#fresh.clear()
    this.#guessed.clear()
    return { now, wall, loaded }
  }

  /** A claim on a key that nobody has, and the release of one that only we have, can do without reading first. */
  #guess(key: string): boolean {
    const { recent, claims } = this.#setup
    if (!this.#mayGuess) return false
    const request = this.#only.get(key)
    if (request === undefined) return false
    const known = recent.get(key)
    if (request.op === 'claim') {
      // One that takes another's place has nothing to take from nobody.
      if (request.claim.replaces !== undefined || (known !== undefined && known.records.size > 0)) return false
      return this.#guessThat(key, known ?? nobody)
    }
    if (request.op !== 'release' || known?.records.get(request.id)?.state !== 'held' || known.records.size > 1)
      return false
    // Only while it is sure to hold: how it ended otherwise is for the rule to say.
    const endAt = claims.find(request.id)?.endAt ?? -Infinity
    const leftMs = this.#setup.leases.leftMs(known.markers.get(request.id) ?? 0) ?? 0
    if (leftMs <= 0 || endAt <= this.#setup.ownTime() || this.#setup.forTests !== undefined) return false
    return this.#guessThat(key, known)
  }

  #guessThat(key: string, reading: Reading): true {
    this.#fresh.set(key, reading)
    this.#guessed.add(key)
    return true
  }

  async #read(keys: readonly string[]): Promise<void> {
    const { transactions, keyspace } = this.#setup
    const operations = keys.map((key) => readingOf(keyspace, key))
    const results = await transactions.read(operations, this.#leftMs())
    for (const [index, key] of keys.entries()) this.#fresh.set(key, foundReading(keyspace, results[index] as Found))
  }

  #timed(key: string, { document, markers }: Reading, now: number): KeyDocument | undefined {
    if (document === undefined) return undefined
    const { claims, leases, keyspace, forTests, ownTime } = this.#setup
    return withTimes(document, {
      now,
      markers,
      known: (id) => forTests?.known(keyspace.marker(key, id)),
      living: (record, lease) => {
        const own = leases.leftMs(lease) === undefined ? undefined : claims.find(record.claim.id)
        const leftMs = own === undefined ? record.ttlMs : Math.floor(own.endAt - ownTime())
        // Only a marker that is gone says that a claim is over: a renewal of it may be under way, and writes nothing.
        return { ...record, expiresAt: now + Math.min(record.ttlMs, Math.max(1, leftMs)) }
      },
    })
  }

  // ---- writing

  /** A renewal that says nothing new is carried by the lease. */
  takesNote(key: string, { before, after }: RecordChange): boolean {
    if (before === undefined || after === undefined) return false
    const { id } = before.claim
    const isSame =
      before.state === after.state &&
      before.fence === after.fence &&
      before.ttlMs === after.ttlMs &&
      before.detached === after.detached &&
      before.leaving === after.leaving &&
      before.after === after.after
    if (!isSame || this.#writing.mustMove(this.#readings.get(key) ?? nobody, id, after.ttlMs)) return false
    this.#learn(key, [after])
    return true
  }

  async swap(
    swaps: readonly Swap<Reading>[],
  ): Promise<readonly ('swapped' | 'conflict' | { readonly unknown: unknown })[]> {
    const { transactions, keyspace } = this.#setup
    const written = await Promise.all(swaps.map((swap) => this.#writing.transaction(swap)))
    // Where there is no connection, the write says so.
    const session = await this.#setup.session().catch(() => this.#session)
    // A store that was restored meanwhile may have given the revision to another document.
    if (session !== this.#session) return swaps.map(() => 'conflict')
    const outcomes = await transactions.write(
      written.map(({ transaction }) => transaction),
      this.#leftMs(),
    )
    const faults = outcomes.flatMap((outcome) => ('fault' in outcome ? [outcome.fault] : []))
    if (faults.some(isLeaseGone)) this.#doubtLeases()
    else if (faults.length === swaps.length && faults.every(isRefused)) throw faultOf(faults[0])
    return outcomes.map((outcome, index) => {
      const { key } = swaps[index] as Swap<Reading>
      if ('fault' in outcome) return isLeaseGone(outcome.fault) ? 'conflict' : { unknown: faultOf(outcome.fault) }
      if (!outcome.succeeded) {
        this.#fresh.set(key, foundReading(keyspace, outcome))
        return 'conflict'
      }
      this.#remember(swaps[index] as Swap<Reading>, written[index] as Written, outcome.revision)
      return 'swapped'
    })
  }

  #doubtLeases(): void {
    this.#setup.leases.doubt()
    this.#writing.doubtOwn()
    this.#setup.garbage.forget()
  }

  #remember(swap: Swap<Reading>, { markers, questioned }: Written, revision: number): void {
    const { key, document, revision: before } = swap
    const records = recordsOf(document.claims)
    const channels = new Map<string, string>()
    for (const id of records.keys()) channels.set(id, this.#writing.channelOf(id, before) ?? '')
    const written: Reading = { revision, seenAt: before.seenAt, document, markers, questioned, records, channels }
    this.#readings.set(key, written)
    this.#writing.dropUnused(before.markers, markers)
    this.#setup.recent.put(key, written)
    this.#learn(key, document.claims)
  }

  #learn(key: string, records: KeyDocument['claims']): void {
    const { forTests, keyspace } = this.#setup
    if (forTests === undefined) return
    for (const { claim, expiresAt, lastHeartbeat } of records) {
      forTests.learn(keyspace.marker(key, claim.id), { expiresAt, lastHeartbeat })
    }
  }

  /** For our own, once they know what was answered; others hear it by mail. */
  notify(notifications: readonly (NotifiedClaim & { readonly key: string })[]): void {
    this.#notifications.push(...notifications)
  }

  #leftMs(): number {
    return Math.max(1, Math.floor(this.#deadline - this.#setup.ownTime()))
  }
}
