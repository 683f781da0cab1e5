/**
 * One `send` over documents without times: they are read, shown to the rule with ends on this process's clock, and written
 * without them. An answer gives its owner no more time than observers leave it.
 */
import type { RecordChange } from '../../../core/rule/claim-record.ts'
import { claimIdOf, keyOf, sendTimeoutFor } from '../../../core/contract/requests.ts'
import type { ClaimStatus, Notification, Request } from '../../../core/contract/driver.ts'
import type { Environment } from '../../../core/time/environment.ts'
import { CallTimedOut } from '../../kit/call-timeout.ts'
import type { DocumentSend } from '../document-send.ts'
import type { Loaded, Swap } from '../document-swaps.ts'
import type { KeyDocument } from '../key-document.ts'
import type { Beat, Observations } from './observations.ts'
import type { LoadedObserved, NotifiedOwner, ObservedSwapper } from './clockless-store.ts'
import type { ObservedDocument } from './observed-document.ts'
import type { RecentDocuments } from './recent-documents.ts'
import { beatsOf, withEnds, withoutEnds, type Written } from './stored-key.ts'
import type { SentLease, TrustedLeases } from './trusted-leases.ts'

/** What all sends of a driver share. */
export interface ObservedSetup<Revision> {
  readonly store: ObservedSwapper<Revision>
  /** Its `now` counts for owners, who must not trust a lease for too long. */
  readonly environment: Environment
  /** The clock of the observer, in whole milliseconds: it must not run ahead. */
  readonly observedNow: () => number
  readonly observations: Observations
  readonly trusted: TrustedLeases
  /** Tests that move one clock for all: no margin, and nothing is left unwritten. */
  readonly isExact: boolean
  /** How long one send may take. @default no limit */
  readonly sendTimeoutMs: number | undefined
  /** Names this driver on the claims that it makes and renews, if the store can notify it. */
  readonly channel: string | undefined
  /** Tells the owner of a claim what has become of it, if the claim is of this driver. `status` gives what is true by then. */
  readonly tell: (claim: NotifiedOwner, status: () => Notification) => void
  readonly recent: RecentDocuments<Revision>
  readonly settled: (requests: readonly Request[], statuses: readonly ClaimStatus[] | undefined, sentAt: number) => void
}

/** What a swap compares, and what it needs to leave the ends out again. */
export interface ObservedRevision<Revision> {
  readonly revision: Revision
  readonly stored: ObservedDocument | undefined
  readonly shown: KeyDocument | undefined
}

/** For this part of its ttl, a waiter that asks again is answered without a write. */
const freshPart = 0.25

/** See the top of the file. */
export class ObservedSend<Revision> implements DocumentSend<ObservedRevision<Revision>> {
  readonly #setup: ObservedSetup<Revision>
  readonly #requests: readonly Request[]
  readonly #sentAt: number
  /** The document of each key as last read or written, and the beats in it by claim, once asked for. */
  readonly #stored = new Map<string, ObservedDocument | undefined>()
  readonly #beats = new Map<string, ReadonlyMap<string, string>>()
  readonly #ids: ReadonlySet<string | undefined>
  #mayGuess = true

  constructor(setup: ObservedSetup<Revision>, requests: readonly Request[]) {
    this.#setup = setup
    this.#requests = requests
    this.#ids = new Set(requests.map(claimIdOf))
    this.#sentAt = setup.environment.now()
  }

  async load(keys: readonly string[]): Promise<{
    readonly now: number
    readonly wall: number
    readonly loaded: readonly Loaded<ObservedRevision<Revision>>[]
  }> {
    const { store, environment, observations } = this.#setup
    const reading = observations.begin()
    const guesses = this.#guesses(keys)
    const unread = keys.filter((key) => !guesses.has(key))
    const found = unread.length === 0 ? [] : await store.load(unread, this.#leftMs())
    const read = new Map(unread.map((key, index) => [key, found[index]]))
    // Only now: a beat is first seen when its document has arrived, and not when it was asked for.
    const now = this.#setup.observedNow()
    const loaded = keys.map((key) => {
      const isGuess = guesses.has(key)
      const { document: stored, revision, error } = (guesses.get(key) ?? read.get(key)) as LoadedObserved<Revision>
      if (!isGuess && error === undefined) {
        observations.see(key, beatsOf(stored), now, reading)
        this.#keep(key, stored)
      }
      const shown = this.#shown(key, stored, now)
      return { document: shown, revision: { revision, stored, shown }, isGuess, error }
    })
    return { now, wall: environment.wall(), loaded }
  }

  /** Documents that a swap can be tried on without a reading: those just written, and for a new claim none at all. */
  #guesses(keys: readonly string[]): ReadonlyMap<string, LoadedObserved<Revision>> {
    const { store, recent, environment, observations } = this.#setup
    const guesses = new Map<string, LoadedObserved<Revision>>()
    const { absentRevision } = store
    if (!this.#mayGuess || absentRevision === undefined) return guesses
    this.#mayGuess = false
    const now = environment.now()
    for (const key of keys) {
      const written = recent.get(key, now)
      if (written !== undefined) guesses.set(key, written)
    }
    for (const request of this.#requests) {
      const key = keyOf(request)
      if (request.op !== 'claim' || guesses.has(key) || observations.knows(key)) continue
      guesses.set(key, { document: undefined, revision: absentRevision })
    }
    return guesses
  }

  #shown(key: string, stored: ObservedDocument | undefined, now: number): KeyDocument | undefined {
    const { observations, isExact } = this.#setup
    if (stored === undefined) return undefined
    const firstSeenAt = (beat: Beat): number => observations.firstSeenAt(key, beat) ?? now
    return withEnds(stored, { now, isExact, isCut: true, firstSeenAt })
  }

  /** A waiter that asks whether it is its turn: its lease is fresh, so nothing needs to be written. */
  absorbs(key: string, { before, after }: RecordChange): boolean {
    const { trusted, environment, isExact } = this.#setup
    if (isExact || before?.state !== 'waiting' || after?.state !== 'waiting') return false
    const isSame = before.ttlMs === after.ttlMs && before.detached === after.detached
    const claim = { key, id: after.claim.id }
    const beganAt = trusted.beganAt(claim, this.#beatOf(claim)) ?? -Infinity
    return isSame && environment.now() - beganAt < freshPart * after.ttlMs
  }

  async swap(
    swaps: readonly Swap<ObservedRevision<Revision>>[],
  ): Promise<readonly ('swapped' | 'conflict' | { readonly unknown: unknown })[]> {
    const { store, environment, observations, recent } = this.#setup
    const withinMs = this.#leftMs()
    const now = this.#setup.observedNow()
    const sentAt = environment.now()
    const wall = environment.wall()
    const written = swaps.map(({ document, revision }) =>
      withoutEnds(document, revision, { nonce: environment.id(), now, wall, channelOf: this.#channelOf }),
    )
    for (const [index, { key }] of swaps.entries()) this.#expect(key, written[index] as Written)
    const results = await store.swap(
      swaps.map(({ key, revision, idle }, index) => {
        return { key, document: (written[index] as Written).document, revision: revision.revision, idle }
      }),
      withinMs,
    )
    // Counted from the answer: the write was carried out before. A reading that began before that may have missed it.
    const writing = observations.begin()
    const at = this.#setup.observedNow()
    return results.map((result, index) => {
      const swap = swaps[index] as Swap<ObservedRevision<Revision>>
      const { key } = swap
      recent.forget(key)
      if (result === 'conflict' || (result !== 'swapped' && 'unknown' in result)) return result
      const { document } = written[index] as Written
      observations.see(key, beatsOf(document), at, writing)
      this.#note(key, written[index] as Written)
      if (result !== 'swapped') recent.put(key, { document, revision: result.written }, sentAt)
      this.#notify(swap)
      return 'swapped'
    })
  }

  readonly #channelOf = (id: string): string | undefined => (this.#ids.has(id) ? this.#setup.channel : undefined)

  /** Notifies the owners of claims that others' requests have granted or ended: those of this driver need no request for it. */
  #notify({ key, notifications, revision: { stored } }: Swap<ObservedRevision<Revision>>): void {
    const { store, channel: own, tell } = this.#setup
    for (const { record, status } of notifications) {
      const claim = { key, id: record.claim.id }
      tell(claim, this.#statusToTell(claim, status))
      const channel = stored?.claims.find((lease) => lease.claim.id === claim.id)?.channel
      if (channel !== undefined && channel !== own) store.notify?.(channel, claim)
    }
  }

  /** The time that is left counts from when it is told. */
  #statusToTell(claim: NotifiedOwner, status: ClaimStatus): () => Notification {
    const { trusted, environment, isExact } = this.#setup
    if (isExact || status.state !== 'held') return () => status
    const beat = this.#beatOf(claim)
    return () => {
      const leftMs = Math.floor(trusted.leftMs(claim, beat, environment.now()))
      return leftMs < 1 ? 'poll' : { ...status, ttlMs: Math.min(status.ttlMs, leftMs) }
    }
  }

  /** What is left of the time of this send: a store that stands still must not keep a renewal waiting. */
  #leftMs(): number | undefined {
    const { environment, sendTimeoutMs } = this.#setup
    if (sendTimeoutMs === undefined) return undefined
    const endsAt = this.#sentAt + sendTimeoutFor(this.#requests, sendTimeoutMs)
    const leftMs = Math.floor(endsAt - environment.now())
    if (leftMs < 1) throw new CallTimedOut('There was no answer in time')
    return leftMs
  }

  #expect(key: string, written: Written): void {
    for (const { id, lease } of this.#begun(written)) this.#setup.trusted.sending({ key, id }, lease)
  }

  #note(key: string, written: Written): void {
    this.#keep(key, written.document)
    for (const { id, lease } of this.#begun(written)) this.#setup.trusted.written({ key, id }, lease)
  }

  /** The leases that a write begins anew. */
  #begun({ document, renewed }: Written): readonly { readonly id: string; readonly lease: SentLease }[] {
    return document.claims.flatMap(({ claim: { id }, ttlMs, beat }) =>
      renewed.has(id) ? [{ id, lease: { sentAt: this.#sentAt, ttlMs, beat } }] : [],
    )
  }

  settled(statuses: readonly ClaimStatus[] | undefined): void {
    this.#setup.settled(this.#requests, statuses, this.#sentAt)
  }

  /** Observers may have seen the lease begin long before this answer: only what this driver wrote, and when, is sure. */
  bounded(request: Request, status: ClaimStatus): ClaimStatus {
    if (this.#setup.isExact || (status.state !== 'held' && status.state !== 'waiting')) return status
    const claim = { key: keyOf(request), id: claimIdOf(request) ?? '' }
    // Another driver's lease: the owner must renew before it may trust it.
    const leftMs = Math.max(1, Math.floor(this.#setup.trusted.leftMs(claim, this.#beatOf(claim), this.#sentAt)))
    return { ...status, ttlMs: Math.min(status.ttlMs, leftMs) }
  }

  #keep(key: string, stored: ObservedDocument | undefined): void {
    this.#stored.set(key, stored)
    this.#beats.delete(key)
  }

  #beatOf({ key, id }: { readonly key: string; readonly id: string }): string | undefined {
    let beats = this.#beats.get(key)
    if (beats === undefined) {
      beats = new Map(beatsOf(this.#stored.get(key)).map(({ id: claim, beat }) => [claim, beat]))
      this.#beats.set(key, beats)
    }
    return beats.get(id)
  }
}
