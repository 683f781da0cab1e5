/** One `send`: first one command a key that settles what is simple (`fast-path.ts`), then compare-and-swap for what is not. */
import type { NotifiedClaim } from '../../core/rule/admission.ts'
import { claimIdOf, keyOf, sendTimeoutFor } from '../../core/contract/requests.ts'
import type { DocumentSend } from '../document/document-send.ts'
import type { Loaded, Swap } from '../document/document-swaps.ts'
import type { Request, ClaimStatus } from '../../core/contract/driver.ts'
import { writeConcern } from './concerns.ts'
import {
  decodeMongodbDocument,
  encodeNotification,
  encodeRecord,
  firstStatus,
  forgetAt,
  collectionFormatVersion,
  freeAt,
  hasSole,
  projectedFields,
  type StoredClaim,
  type StoredKey,
} from './document.ts'
import { mongodbError, isDuplicate, isMongodbRefusal, isTooLarge, noAnswerInTime } from './errors.ts'
import { fastCommand, type Expression } from './fast-path.ts'
import type { MongoStore } from './store.ts'
import { CallTimedOut } from '../kit/call-timeout.ts'

/** The document that was read, and the channels of the drivers that keep its claims. */
export interface Revision {
  /** Undefined: there was no document. */
  readonly revision: string | undefined
  /** The only holder, which one command may release without a new revision. */
  readonly sole: string | undefined
  readonly channels: ReadonlyMap<string, string>
}

/** The part that all sends of a driver share. */
export interface MongodbSendSetup {
  readonly channel: string
  readonly clock: () => Expression
  /** Never the same twice, of any driver. */
  readonly newRevision: () => string
  readonly notify: (key: string, id: string, status: ClaimStatus) => void
  readonly isOwn: (key: string, id: string) => boolean
  /** Whether a claim of ours waits for the key. */
  readonly isContended: (key: string) => boolean
  /** Whether a claim of ours holds, with time to spare, and succeeded no claim that must be remembered. */
  readonly mayWithdraw: (key: string, id: string) => boolean
  /** How long one send may take. */
  readonly timeoutMs: number
  /** The clock of this process. */
  readonly ownTime: () => number
  /** Takes in the answers to requests that were sent at a time of this process's clock. */
  readonly settled: (requests: readonly Request[], statuses: readonly ClaimStatus[], sentAt: number) => void
}

export class MongodbSend implements DocumentSend<Revision> {
  readonly #setup: MongodbSendSetup
  readonly #store: MongoStore
  readonly #requests: readonly Request[]
  /** When this send gives up, on the clock of this process. */
  readonly #deadline: number
  /** The claims of this send: the driver that sends for a claim keeps it. */
  #ids: ReadonlySet<string> | undefined
  /** When this send began, as `ownTime` of its setup counts. */
  readonly #sentAt: number
  #now = 0

  constructor(setup: MongodbSendSetup, store: MongoStore, requests: readonly Request[]) {
    this.#setup = setup
    this.#store = store
    this.#requests = requests
    this.#sentAt = setup.ownTime()
    this.#deadline = performance.now() + sendTimeoutFor(requests, setup.timeoutMs)
  }

  // ---- in one command

  async fast(requests: readonly Request[]): Promise<readonly (ClaimStatus | undefined)[]> {
    const [only] = requests
    if (requests.length === 1 && only !== undefined) return [await this.#settle(only)]
    const times = new Map<string, number>()
    for (const request of requests) times.set(keyOf(request), (times.get(keyOf(request)) ?? 0) + 1)
    // Several requests of one key must be carried out in their order.
    const isSingle = (request: Request): boolean => times.get(keyOf(request)) === 1
    return Promise.all(requests.map(async (request) => (isSingle(request) ? this.#settle(request) : undefined)))
  }

  async #settle(request: Request): Promise<ClaimStatus | undefined> {
    const { channel, clock, newRevision, isContended, mayWithdraw } = this.#setup
    const key = keyOf(request)
    // If a claim of ours waits for the key, the rule must read the queue anyway.
    if (isContended(key)) return undefined
    if (request.op === 'release' && !mayWithdraw(key, request.id)) return undefined
    const revision = newRevision()
    const command = fastCommand(request, { revision, channel, clock: clock() })
    if (command === undefined) return undefined
    const { filter, update } = command
    try {
      const timeoutMS = this.#leftMs()
      if (request.op === 'release') {
        const { modifiedCount } = await this.#store.collection.updateOne(filter, update, { writeConcern, timeoutMS })
        return modifiedCount === 1 ? released : undefined
      }
      const options = { writeConcern, timeoutMS, upsert: request.op === 'claim', returnDocument: 'after' }
      const stored = (await this.#store.collection.findOneAndUpdate(filter, update, options)) as StoredKey | null
      if (stored?.revision !== revision) return undefined
      // A damaged record, which the rule's reader refuses.
      if (!Number.isSafeInteger(stored.lastFence)) return undefined
      if (request.op !== 'claim' || (stored.previous?.length ?? 0) > 0) return firstStatus(key, stored)
      const { ttlMs, maxHoldMs = ttlMs } = request.claim
      return {
        state: 'held',
        fence: stored.lastFence,
        ttlMs: Math.min(ttlMs, maxHoldMs),
        leaving: undefined,
        after: undefined,
      }
    } catch (error) {
      // Refused, so nothing was changed: the read that follows finds out why.
      if (isDuplicate(error) || isMongodbRefusal(error)) return undefined
      return { state: 'unknown', error: mongodbError(error) }
    }
  }

  // ---- by compare-and-swap

  async load(keys: readonly string[]): Promise<{ now: number; wall: number; loaded: Loaded<Revision>[] }> {
    const startedAt = performance.now()
    try {
      const { documents, now } = await this.#read(keys)
      const byKey = new Map(documents.map(keyed))
      // A damaged document says nothing of the time.
      const written = documents.map(({ writtenAt }) => Number(writtenAt ?? 0)).filter(Number.isFinite)
      this.#now = timeOf(
        now,
        written.reduce((last, at) => Math.max(last, at), 0),
        startedAt,
      )
      const loaded = keys.map((key) => {
        const stored = byKey.get(key)
        return stored === undefined ? nothingStored : loadedFrom(stored)
      })
      return { now: this.#now, wall: this.#now, loaded }
    } catch (error) {
      throw mongodbError(error)
    }
  }

  /** The documents of the keys, and the server's time before they were read. */
  async #read(keys: readonly string[]): Promise<{ documents: readonly StoredKey[]; now: number }> {
    const pipeline = [
      { $match: { _id: { $in: keys } } },
      { $project: projectedFields },
      // `$facet` gives one document even if none matched: it carries the time.
      { $facet: { documents: [{ $match: {} }] } },
      { $set: { now: { $toLong: this.#setup.clock() } } },
    ]
    try {
      const [page] = (await this.#store.read(pipeline, this.#leftMs())) as { documents: StoredKey[]; now: unknown }[]
      return { documents: page?.documents ?? [], now: Number(page?.now) }
    } catch (error) {
      if (!isTooLarge(error) || keys.length === 1) throw error
      // Each document fits into an answer, but not all of them together.
      const half = Math.ceil(keys.length / 2)
      const { documents, now } = await this.#read(keys.slice(0, half))
      return { documents: [...documents, ...(await this.#read(keys.slice(half))).documents], now }
    }
  }

  swap(swaps: readonly Swap<Revision>[]): Promise<readonly ('swapped' | 'conflict' | { readonly unknown: unknown })[]> {
    return Promise.all(swaps.map((swap) => this.#swap(swap)))
  }

  async #swap(swap: Swap<Revision>): Promise<'swapped' | 'conflict' | { readonly unknown: unknown }> {
    const { collection } = this.#store
    const { revision, sole } = swap.revision
    try {
      const document = this.#encode(swap)
      const options = { writeConcern, timeoutMS: this.#leftMs() }
      if (revision === undefined) {
        await collection.insertOne({ ...document }, options)
        return 'swapped'
      }
      const unchanged = sole === undefined ? { revision } : { revision, 'claims.id': sole }
      const result = await collection.replaceOne({ _id: swap.key, ...unchanged }, { ...document }, options)
      return 'matchedCount' in result && result.matchedCount === 1 ? 'swapped' : 'conflict'
    } catch (error) {
      return isDuplicate(error) ? 'conflict' : { unknown: mongodbError(error) }
    }
  }

  #encode({ key, document, revision, notifications }: Swap<Revision>): StoredKey {
    const { channel, newRevision } = this.#setup
    this.#ids ??= new Set(this.#requests.flatMap((request) => claimIdOf(request) ?? []))
    const ids = this.#ids
    const channelOf = (id: string): string => (ids.has(id) ? channel : (revision.channels.get(id) ?? ''))
    const notified = notifications
      .map((claim) => encodeNotification(claim, channelOf(claim.record.claim.id)))
      .filter(({ to }) => to !== channel && to !== '')
    const isSole = hasSole(document)
    const claims = document.claims.map((record) => encodeRecord(record, channelOf(record.claim.id), isSole))
    return {
      _id: key,
      version: collectionFormatVersion,
      revision: newRevision(),
      writtenAt: new Date(this.#now),
      lastFence: document.lastFence,
      ended: document.ended && JSON.stringify(document.ended),
      claims: claims.length > 0 ? claims : undefined,
      notifications: notified.length > 0 ? notified : undefined,
      freeAt: freeAt(document),
      expiresAt: forgetAt(document),
    }
  }

  /** Notifies claims of this driver at once; other drivers are notified by the document. */
  notify(notifications: readonly (NotifiedClaim & { readonly key: string })[]): void {
    const { notify, isOwn } = this.#setup
    for (const { key, record, status } of notifications) {
      const { id } = record.claim
      if (isOwn(key, id)) queueMicrotask(() => notify(key, id, status))
    }
  }

  settled(statuses: readonly ClaimStatus[] | undefined): void {
    if (statuses !== undefined) this.#setup.settled(this.#requests, statuses, this.#sentAt)
  }

  /** What is left of the time of this send: a server that stands still must not keep a renewal waiting. */
  #leftMs(): number {
    const leftMs = Math.floor(this.#deadline - performance.now())
    if (leftMs < 1) throw new CallTimedOut(noAnswerInTime())
    return leftMs
  }
}

const released: ClaimStatus = { state: 'absent', reason: 'released' }
const nothingStored: Loaded<Revision> = {
  document: undefined,
  revision: { revision: undefined, sole: undefined, channels: new Map() },
}

function keyed(stored: StoredKey): [string, StoredKey] {
  const { _id: key } = stored
  return [key, stored]
}

function loadedFrom(stored: StoredKey): Loaded<Revision> {
  const { _id: key } = stored
  const claims = Array.isArray(stored.claims) ? (stored.claims as readonly (StoredClaim | null)[]) : []
  // A damaged claim is left to the rule's reader to refuse.
  const channels = new Map(claims.flatMap((claim) => (claim === null ? [] : [[claim.id, claim.channel]])))
  const [first] = claims
  const sole = first?.isSole === true ? first.id : undefined
  return { document: decodeMongodbDocument(key, stored), revision: { revision: stored.revision, sole, channels } }
}

/**
 * The server's time of a reading. The server reads its clock when a command begins: a document written while the command
 * waited is newer than that, as if the clock had been set back.
 */
function timeOf(now: number, writtenAt: number, startedAt: number): number {
  return Math.max(now, Math.min(writtenAt, now + Math.ceil(performance.now() - startedAt)))
}
