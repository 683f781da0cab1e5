/**
 * One `send`. A key is read with its markers, the rule is run, and what comes of it is written in one transaction, if the
 * document is as it was read; where it is not, the same round trip brings it as it is. Many keys go in one transaction.
 */
import type { RecordChange, NotifiedClaim } from '../../core/rule/admission.ts'
import { claimIdOf, keyOf, sendTimeoutFor } from '../../core/contract/requests.ts'
import type { DocumentSend } from '../document/document-send.ts'
import type { Loaded, Swap } from '../document/document-swaps.ts'
import type { Request, ClaimStatus } from '../../core/contract/driver.ts'
import type { KeyDocument } from '../document/key-document.ts'
import type { BatchedTransactions, Found } from './batched-transactions.ts'
import { etcdError, isLeaseGone, isEtcdRefusal } from './rpc/errors.ts'
import {
  foundReading,
  absentKey,
  readingOf,
  recordsOf,
  withTimes,
  type KeyReading,
  type RecentKeys,
} from './key-reading.ts'
import type { LeasesForTests } from './test-leases.ts'
import { KeyWriter, type KeyWriterSetup, type KeyWrite } from './key-writer.ts'

/** The part that all sends of a driver share. */
export interface EtcdSendSetup extends KeyWriterSetup {
  readonly transactions: BatchedTransactions
  /** The current connection, or a new one. A revision read over another connection may be of a store since restored. */
  readonly session: () => Promise<unknown>
  readonly recent: RecentKeys
  /** The wall clock of this process: etcd has none to ask for. */
  readonly wall: () => number
  /** The clock of this process, by which leases are trusted. */
  readonly ownTime: () => number
  readonly forTests: LeasesForTests | undefined
  /** How long one send may take. */
  readonly timeoutMs: number
  /** Takes in what became of a send; undefined: nothing was sent. */
  readonly settled: (send: EtcdSend, requests: readonly Request[], statuses: readonly ClaimStatus[] | undefined) => void
}

export class EtcdSend implements DocumentSend<KeyReading> {
  /** When this send began, on the clock of this process. */
  readonly sentAt: number
  readonly #setup: EtcdSendSetup
  readonly #requests: readonly Request[]
  readonly #byId: ReadonlyMap<string, Request>
  readonly #writer: KeyWriter
  /** The request for a key; undefined: there are several. */
  readonly #only = new Map<string, Request | undefined>()
  /** When this send gives up, on the clock of this process. */
  readonly #deadline: number
  /** Keys as they were when they were last read, or are guessed to be. */
  readonly #readings = new Map<string, KeyReading>()
  /** Readings that the last round brought, not yet judged. */
  readonly #fresh = new Map<string, KeyReading>()
  readonly #notifications: (NotifiedClaim & { readonly key: string })[] = []
  readonly #guessed = new Set<string>()
  #mayGuess = true
  /** The connection over which `#readings` were read. */
  #session: unknown

  constructor(setup: EtcdSendSetup, requests: readonly Request[]) {
    this.#setup = setup
    this.#requests = requests
    this.sentAt = setup.ownTime()
    this.#deadline = this.sentAt + sendTimeoutFor(requests, setup.timeoutMs)
    this.#byId = new Map(requests.map((request) => [claimIdOf(request) ?? '', request]))
    this.#writer = new KeyWriter(setup, this.#byId, () => this.#leftMs())
    for (const request of requests) {
      const key = keyOf(request)
      this.#only.set(key, this.#only.has(key) ? undefined : request)
    }
  }

  /** Waits until nothing of these claims is being ended, and secures the leases that they are to live on. */
  async prepare(): Promise<void> {
    await this.#setup.claims.begin(this.#requests)
    const ttls = new Set<number>()
    for (const request of this.#requests) {
      // A claim that outlives its process gets a lease of its own when it is written.
      if (request.op === 'claim' && request.claim.detached !== true) ttls.add(request.claim.ttlMs)
      else if (request.op === 'renew' && request.detached !== true) ttls.add(request.ttlMs)
    }
    await Promise.all(Array.from(ttls, (ttlMs) => this.#setup.leases.secure(ttlMs, this.#leftMs())))
  }

  settled(statuses: readonly ClaimStatus[] | undefined): void {
    this.#setup.settled(this, this.#requests, statuses)
  }

  /** The status with no more time than is sure: etcd's leases are what ends claims. */
  bounded(request: Request, status: ClaimStatus): ClaimStatus {
    if (status.state !== 'held' || this.#setup.forTests !== undefined) return status
    const isProbed = this.#readings.get(keyOf(request))?.probed?.has(claimIdOf(request) ?? '') === true
    // While a probe is open, the owner must renew before it may trust more time.
    if (isProbed) return { ...status, ttlMs: 1 }
    const lease = this.leaseOf(request)
    // The lease may be another driver's: how long it lasts is not known here.
    const leftMs = this.#setup.leases.leftMs(lease) ?? 0
    return { ...status, ttlMs: Math.max(1, Math.floor(Math.min(status.ttlMs, leftMs))) }
  }

  /** The etcd lease that the claim of a request is on by now; 0: none that is known. */
  leaseOf(request: Request): number {
    return this.#readings.get(keyOf(request))?.markers.get(claimIdOf(request) ?? '') ?? 0
  }

  /** A key as it was when it was last read or written; undefined: it was not. */
  readingFor(key: string): KeyReading | undefined {
    return this.#readings.get(key)
  }

  /** The revision of the store when the markers of a key were read. */
  seenAt(key: string): number {
    return this.#readings.get(key)?.seenAt ?? 0
  }

  /** What became of claims besides those of the requests. */
  get notifications(): readonly (NotifiedClaim & { readonly key: string })[] {
    return this.#notifications
  }

  /** Whether a request of this send is about the claim. */
  isAbout(id: string): boolean {
    return this.#byId.has(id)
  }

  // ---- reading

  async load(keys: readonly string[]): Promise<{ now: number; wall: number; loaded: Loaded<KeyReading>[] }> {
    try {
      const session = await this.#setup.session()
      if (session !== this.#session) this.#fresh.clear()
      this.#session = session
      // Only now: a new connection makes the driver forget the keys that it could guess.
      const unread = keys.filter((key) => !this.#fresh.has(key) && !this.#guess(key))
      this.#mayGuess = false
      await this.#read(unread)
    } catch (error) {
      throw etcdError(error)
    }
    const wall = this.#setup.wall()
    const now = Math.floor(wall)
    const loaded = keys.map((key) => {
      const reading = this.#fresh.get(key) ?? absentKey
      this.#readings.set(key, reading)
      return { document: this.#timed(key, reading, now), revision: reading, isGuess: this.#guessed.has(key) }
    })
    this.#fresh.clear()
    this.#guessed.clear()
    return { now, wall, loaded }
  }

  /** A claim on an idle key, and the release of its only holder, can be written without reading first. */
  #guess(key: string): boolean {
    const { recent, claims } = this.#setup
    if (!this.#mayGuess) return false
    const request = this.#only.get(key)
    if (request === undefined) return false
    const known = recent.get(key)
    if (request.op === 'claim') {
      // A claim that replaces another must read that one.
      if (request.claim.replaces !== undefined || (known !== undefined && known.records.size > 0)) return false
      return this.#guessThat(key, known ?? absentKey)
    }
    if (request.op !== 'release' || known?.records.get(request.id)?.state !== 'held' || known.records.size > 1)
      return false
    // Only while the claim surely holds: otherwise the rule says how it ended.
    const endAt = claims.find(request.id)?.endAt ?? -Infinity
    const leftMs = this.#setup.leases.leftMs(known.markers.get(request.id) ?? 0) ?? 0
    if (leftMs <= 0 || endAt <= this.#setup.ownTime() || this.#setup.forTests !== undefined) return false
    return this.#guessThat(key, known)
  }

  #guessThat(key: string, reading: KeyReading): true {
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

  #timed(key: string, { document, markers }: KeyReading, now: number): KeyDocument | undefined {
    if (document === undefined) return undefined
    const { claims, leases, keyspace, forTests, ownTime } = this.#setup
    return withTimes(document, {
      now,
      markers,
      known: (id) => forTests?.known(keyspace.marker(key, id)),
      living: (record, lease) => {
        const own = leases.leftMs(lease) === undefined ? undefined : claims.find(record.claim.id)
        const leftMs = own === undefined ? record.ttlMs : Math.floor(own.endAt - ownTime())
        // Only a missing marker means that a claim is over: its renewal may be under way and writes nothing.
        return { ...record, expiresAt: now + Math.min(record.ttlMs, Math.max(1, leftMs)) }
      },
    })
  }

  // ---- writing

  /** A renewal that changes nothing but the end is carried by the lease. */
  absorbs(key: string, { before, after }: RecordChange): boolean {
    if (before === undefined || after === undefined) return false
    const { id } = before.claim
    const isSame =
      before.state === after.state &&
      before.fence === after.fence &&
      before.ttlMs === after.ttlMs &&
      before.detached === after.detached &&
      before.leaving === after.leaving &&
      before.after === after.after
    if (!isSame || this.#writer.mustMove(this.#readings.get(key) ?? absentKey, id, after.ttlMs)) return false
    this.#learn(key, [after])
    return true
  }

  async swap(
    swaps: readonly Swap<KeyReading>[],
  ): Promise<readonly ('swapped' | 'conflict' | { readonly unknown: unknown })[]> {
    const { transactions, keyspace } = this.#setup
    const written = await Promise.all(swaps.map((swap) => this.#writer.transaction(swap)))
    // Without a connection the write fails and says so.
    const session = await this.#setup.session().catch(() => this.#session)
    // A store that was restored meanwhile may have given the revision to another document.
    if (session !== this.#session) return swaps.map(() => 'conflict')
    const outcomes = await transactions.write(
      written.map(({ transaction }) => transaction),
      this.#leftMs(),
    )
    const faults = outcomes.flatMap((outcome) => ('fault' in outcome ? [outcome.fault] : []))
    if (faults.some(isLeaseGone)) this.#suspectLeases()
    else if (faults.length === swaps.length && faults.every(isEtcdRefusal)) throw etcdError(faults[0])
    return outcomes.map((outcome, index) => {
      const { key } = swaps[index] as Swap<KeyReading>
      if ('fault' in outcome) return isLeaseGone(outcome.fault) ? 'conflict' : { unknown: etcdError(outcome.fault) }
      if (!outcome.succeeded) {
        this.#fresh.set(key, foundReading(keyspace, outcome))
        return 'conflict'
      }
      this.#remember(swaps[index] as Swap<KeyReading>, written[index] as KeyWrite, outcome.revision)
      return 'swapped'
    })
  }

  #suspectLeases(): void {
    this.#setup.leases.suspectAll()
    this.#writer.suspectOwn()
    this.#setup.garbage.forget()
  }

  #remember(swap: Swap<KeyReading>, { markers, probed }: KeyWrite, revision: number): void {
    const { key, document, revision: before } = swap
    const records = recordsOf(document.claims)
    const channels = new Map<string, string>()
    for (const id of records.keys()) channels.set(id, this.#writer.channelOf(id, before) ?? '')
    const written: KeyReading = { revision, seenAt: before.seenAt, document, markers, probed, records, channels }
    this.#readings.set(key, written)
    this.#writer.dropUnused(before.markers, markers)
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

  /** Kept for claims of this driver, until the answers are known; other drivers are notified by the transaction. */
  notify(notifications: readonly (NotifiedClaim & { readonly key: string })[]): void {
    for (const notified of notifications) this.#notifications.push(notified)
  }

  #leftMs(): number {
    return Math.max(1, Math.floor(this.#deadline - this.#setup.ownTime()))
  }
}
