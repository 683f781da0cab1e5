/**
 * Locks in a store that can compare-and-swap one document a key and has no clock to ask.
 *
 * Each process judges leases by its own monotonic clock: a claim is over when its beat has not changed for a whole ttl, and a margin
 * for drift, since this process first saw it. Nobody's wall clock decides who holds. Waiters watch their keys from their arrival on, so a
 * crash is noticed about one ttl after the last renewal; a newcomer waits a whole ttl. Decision 125.
 */
import type {
  ClaimStatus,
  KeyPage,
  ListQuery,
  LockDriver,
  Notification,
  OnGap,
  OnNotification,
  Request,
  Supports,
} from '../../../core/contract/driver.ts'
import { claimIdOf, claimName, keyOf } from '../../../core/contract/requests.ts'
import { LeaseholdError, messageOf } from '../../../core/errors.ts'
import type { Environment } from '../../../core/time/environment.ts'
import { ClaimRegister } from '../../kit/claim-register.ts'
import { Lifecycle } from '../../kit/lifecycle.ts'
import { Listeners } from '../../kit/listeners.ts'
import { cutKey, pageLimit } from '../../kit/paging.ts'
import { QueuePoller, type PollPace, type StoredPlace } from '../../kit/queue-poller.ts'
import { sendOnDocuments, type DocumentSender } from '../document-send.ts'
import { listedKey } from '../key-document.ts'
import { Observations, type Beat } from './observations.ts'
import type { ClocklessPolling, ClocklessStore, NotifiedOwner } from './clockless-store.ts'
import type { ObservedDocument } from './observed-document.ts'
import { RecentDocuments } from './recent-documents.ts'
import { ObservedSend, type ObservedRevision, type ObservedSetup } from './observed-send.ts'
import { beatsOf, withEnds } from './stored-key.ts'
import { TrustedLeases } from './trusted-leases.ts'

const pollingDefault: ClocklessPolling = { minMs: 50, maxMs: 1000, keysPerSecondMax: 10 }

/** A waiter reads its key this often in the ttl of those in front of it, at least: so late may it see a renewal. */
const readingsPerTtl = 12
/** A key that claims of this process hold is read this often: an eviction is noticed before the next renewal. */
const heldReadingsPerTtl = 6
/** With more of them, all are forgotten: the poller finds what has changed. */
const earlyMax = 1000
/** Where no ttl is known yet. */
const ttlFallbackMs = 30_000

/** For tests that move one clock for all drivers of a store, so that each has seen everything at once. @internal */
export interface SharedObservation {
  readonly observations: Observations
  /** The time in which keys are watched: it passes by itself. */
  readonly watching: Environment
}

/** The driver over a store without a clock. @internal */
export class ObservedDriver<Revision> implements LockDriver {
  readonly name: string
  readonly supports: Supports
  readonly #store: ClocklessStore<Revision>
  readonly #environment: Environment
  readonly #isExact: boolean
  readonly #observations: Observations
  readonly #trusted = new TrustedLeases()
  readonly #claims = new ClaimRegister()
  readonly #listeners = new Listeners()
  readonly #lifecycle: Lifecycle<true>
  readonly #sender: DocumentSender<true, ObservedRevision<Revision>>
  readonly #poller: QueuePoller
  /** The shortest ttl among the claims of each key that is waited for, as last read. */
  readonly #shortestTtlMs = new Map<string, number>()
  /** Claims that were notified before their own answers came, by name. */
  readonly #early = new Set<string>()

  constructor(store: ClocklessStore<Revision>, environment: Environment, shared?: SharedObservation) {
    this.#store = store
    this.#environment = environment
    this.#isExact = shared !== undefined
    this.#observations = shared?.observations ?? new Observations(undefined, (key) => this.#claims.of(key).size > 0)
    this.name = store.name
    // A longest hold counts from the grant, which an owner may learn of later than those who would end it.
    this.supports = { ...store.supports, push: true, maxHold: false }
    const channel = store.listen === undefined ? undefined : environment.id()
    this.#lifecycle = new Lifecycle(
      `This ${store.name} store`,
      async (): Promise<true> => {
        await store.open()
        if (channel !== undefined)
          store.listen?.(
            channel,
            (claim) => this.#notified(claim),
            () => this.#poller.pollAll(),
          )
        return true
      },
      () => store.close(),
    )
    const setup: ObservedSetup<Revision> = {
      store,
      environment,
      observedNow: () => this.#observedNow(),
      observations: this.#observations,
      trusted: this.#trusted,
      isExact: this.#isExact,
      sendTimeoutMs: store.sendTimeoutMs,
      channel,
      tell: (claim, status) => environment.defer(() => this.#tell(claim, status)),
      recent: new RecentDocuments<Revision>(),
      settled: (requests, statuses, sentAt) => this.#settled(requests, statuses, sentAt),
    }
    this.#sender = {
      supports: this.supports,
      lifecycle: this.#lifecycle,
      environment,
      begin: (_opened, requests) => new ObservedSend(setup, requests),
      errorOf: (error) => this.#errorOf(error),
    }
    const { minMs, maxMs, keysPerSecondMax } = store.polling ?? pollingDefault
    const pace: PollPace = { minMs, maxMs, adaptive: true }
    this.#poller = new QueuePoller({
      claims: this.#claims,
      pace,
      environment: shared?.watching ?? environment,
      read: (keys) => this.#places(keys),
      mustPoll: () => true,
      poll: (key, id) => this.#listeners.notify(key, id, 'poll'),
      pauseMaxMs: (key) => this.#shortestOf(key) / readingsPerTtl,
      heldPauseMs: (key) => (this.#isExact ? maxMs : Math.max(maxMs, this.#shortestOf(key) / heldReadingsPerTtl)),
      keysPerSecondMax,
      ownTime: () => environment.now(),
      unwatched: (key) => this.#shortestTtlMs.delete(key),
    })
  }

  get warnings(): readonly string[] {
    return this.#store.warnings ?? []
  }

  async open(): Promise<void> {
    try {
      await this.#lifecycle.opened()
    } catch (error) {
      throw this.#errorOf(error)
    }
  }

  async close(): Promise<void> {
    this.#lifecycle.shut()
    this.#listeners.clear()
    this.#claims.clear()
    const polled = this.#poller.close()
    // At once: what is under way may be waiting for a store that stands still.
    await this.#store.close()
    await this.#lifecycle.settled()
    await polled
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return sendOnDocuments(this.#sender, requests)
  }

  listen(onNotification: OnNotification, onGap?: OnGap): Disposable {
    return this.#listeners.listen(onNotification, onGap)
  }

  /** Times are wall clocks, for people. An end is what is left on this process's clock. */
  async list(query: ListQuery): Promise<KeyPage> {
    await this.#lifecycle.opened()
    try {
      const reading = this.#observations.begin()
      const { documents, next } = await this.#store.list({ ...query, limit: pageLimit(query) })
      const now = Math.floor(this.#environment.wall())
      const keys = documents.flatMap(({ key, document }) => {
        const found = listedKey(key, this.#atWall(key, document, now, reading), query)
        return found === undefined || found.claims.length === 0 ? [] : [cutKey(found, query)]
      })
      return next === undefined ? { now, keys } : { now, keys, next }
    } catch (error) {
      throw this.#errorOf(error)
    }
  }

  /** A clock that runs ahead would end what others hold. */
  #observedNow(): number {
    return Math.floor(this.#environment.awake?.() ?? this.#environment.now())
  }

  #atWall(key: string, stored: ObservedDocument, wall: number, reading: number): ReturnType<typeof withEnds> {
    const now = this.#observedNow()
    const shown = this.#shown(key, stored, now, reading)
    if (!Array.isArray((stored as ObservedDocument | null)?.claims)) return shown
    const claims = shown.claims.map((record, index) => {
      const lease = stored.claims[index]
      if (record?.claim === undefined || lease === undefined) return record
      const { acquiredAt, lastHeartbeat } = lease
      return { ...record, acquiredAt, lastHeartbeat, expiresAt: wall + record.expiresAt - now }
    })
    return { ...shown, claims }
  }

  #shown(key: string, stored: ObservedDocument, now: number, reading: number): ReturnType<typeof withEnds> {
    this.#observations.see(key, beatsOf(stored), now, reading)
    const firstSeenAt = (beat: Beat): number => this.#observations.firstSeenAt(key, beat) ?? now
    return withEnds(stored, { now, isExact: this.#isExact, isCut: false, firstSeenAt })
  }

  // ---- claims of this driver, and watching their keys

  /** A notification may come before the answer that the claim waits. */
  #notified({ key, id }: NotifiedOwner): void {
    if (this.#lifecycle.isShut) return
    const claim = this.#claims.of(key).get(id)
    if (claim !== undefined) claim.polled = true
    else {
      if (this.#early.size >= earlyMax) this.#early.clear()
      this.#early.add(claimName({ key, id }))
    }
    this.#listeners.notify(key, id, 'poll')
  }

  /** A request of this driver has changed a claim. Another driver's claims are no concern of its listeners. */
  #tell(claim: NotifiedOwner, statusOf: () => Notification): void {
    const { key, id } = claim
    const isKnown = this.#claims.has(key, id)
    if (this.#lifecycle.isShut || !(isKnown || this.#trusted.has(claim))) return
    const status = statusOf()
    if (!isKnown || status === 'poll') return this.#notified(claim)
    this.#claims.told(key, id, status)
    this.#listeners.notify(key, id, status)
  }

  #settled(requests: readonly Request[], statuses: readonly ClaimStatus[] | undefined, sentAt: number): void {
    if (statuses === undefined || this.#lifecycle.isShut) return
    for (const [index, request] of requests.entries()) {
      const id = claimIdOf(request)
      if (statuses[index]?.state === 'absent' && id !== undefined) this.#trusted.forget({ key: keyOf(request), id })
    }
    const { keys, found: changed } = this.#claims.note(requests, statuses, sentAt)
    const found = [...changed]
    // An owner that learnt of a change by asking may not know all of it: a poll of its claim costs little.
    for (const request of this.#early.size === 0 ? [] : requests) {
      const claim = { key: keyOf(request), id: claimIdOf(request) ?? '' }
      if (this.#early.delete(claimName(claim)) && this.#claims.has(claim.key, claim.id)) found.push(claim)
    }
    if (found.length > 0)
      this.#environment.defer(() => found.forEach(({ key, id }) => this.#listeners.notify(key, id, 'poll')))
    const watched = new Set(keys)
    for (const request of requests) {
      if (request.op !== 'claim' || !watched.has(request.claim.key)) continue
      const { key, ttlMs } = request.claim
      this.#shortestTtlMs.set(key, Math.min(ttlMs, this.#shortestTtlMs.get(key) ?? ttlMs))
    }
    this.#poller.watch(watched)
  }

  #shortestOf(key: string): number {
    return this.#shortestTtlMs.get(key) ?? ttlFallbackMs
  }

  /** Reads keys, takes in their beats, and finds this driver's claims in them. */
  async #places(keys: readonly string[]): Promise<ReadonlyMap<string, ReadonlyMap<string, StoredPlace>>> {
    const reading = this.#observations.begin()
    const read = await this.#store.load(keys)
    const now = this.#observedNow()
    const places = new Map<string, ReadonlyMap<string, StoredPlace>>()
    for (const [index, key] of keys.entries()) {
      const { document: stored, error } = read[index] ?? {}
      if (error !== undefined) places.set(key, this.#placesAsKnown(key))
      else if (stored !== undefined) places.set(key, this.#placesOf(key, stored, now, reading))
    }
    return places
  }

  /** A key that could not be read says nothing new. */
  #placesAsKnown(key: string): ReadonlyMap<string, StoredPlace> {
    const known = [...this.#claims.of(key)]
    return new Map(known.map(([id, { state, leaving }]) => [id, { state, leaving, place: 0, isDue: false }]))
  }

  #placesOf(key: string, stored: ObservedDocument, now: number, reading: number): ReadonlyMap<string, StoredPlace> {
    const places = new Map<string, StoredPlace>()
    const own = this.#claims.of(key)
    if (own.size === 0) return places
    let isDue = false
    let shortestMs = Infinity
    const { claims } = this.#shown(key, stored, now, reading)
    if (!Array.isArray(claims)) return places
    for (const [place, record] of claims.entries()) {
      // Damaged: the next request about the key says so.
      if (record?.claim === undefined) return places
      const { id, graceMs } = record.claim
      // A claim that is over for its owner counts as not stored, though nobody has removed it yet.
      if (own.has(id) && now < record.expiresAt) {
        places.set(id, {
          state: record.state,
          leaving: record.leaving !== undefined,
          place,
          isDue: isDue && record.state === 'waiting',
        })
      }
      isDue ||= now >= record.expiresAt + (record.state === 'held' ? graceMs : 0)
      shortestMs = Math.min(shortestMs, record.ttlMs)
    }
    this.#shortestTtlMs.set(key, shortestMs)
    return places
  }

  #errorOf(error: unknown): LeaseholdError {
    if (error instanceof LeaseholdError) return error
    if (this.#store.errorOf !== undefined) return this.#store.errorOf(error)
    return new LeaseholdError('UNAVAILABLE', `${this.name} failed: ${messageOf(error)}`, { cause: error })
  }
}
