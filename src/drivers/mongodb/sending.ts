/** One `send`: first one command a key that settles what is simple (`quick.ts`), then compare-and-swap for what is not. */
import { randomBytes } from 'node:crypto'
import type { News } from '../../core/admission.ts'
import { keyOf } from '../../core/batcher.ts'
import type { DocumentSwapper, Loaded, Swap } from '../../core/document-swaps.ts'
import type { Request, Standing } from '../../core/driver.ts'
import type { KeyDocument } from '../../core/key-document.ts'
import { writeConcern } from './concerns.ts'
import {
  decodeDocument,
  encodeEnded,
  encodeNews,
  encodeRecord,
  forgetAt,
  freedom,
  formatVersion,
  heldStanding,
  readFields,
  type StoredKey,
} from './document.ts'
import { faultOf, isDuplicate, isRefused, OutOfTime } from './faults.ts'
import { quickCommand, type Expression } from './quick.ts'
import type { Store } from './store.ts'

/** Which document was read, and who looks after the claims in it. */
export interface Revision {
  /** Undefined: there was no document. */
  readonly revision: string | undefined
  readonly channels: ReadonlyMap<string, string>
}

export interface SendingSetup {
  readonly store: Store
  readonly channel: string
  readonly clock: Expression
  /** On this process's clock: nothing is waited for any longer. */
  readonly deadline: number
  readonly tell: (key: string, id: string, standing: Standing) => void
  readonly isOwn: (key: string, id: string) => boolean
  /** Whether claims of ours are known to wait there. */
  readonly isContended: (key: string) => boolean
}

export class Sending implements DocumentSwapper<Revision> {
  readonly #setup: SendingSetup
  /** The claims this send is about: whoever sends for a claim looks after it. */
  readonly #ids: ReadonlySet<string>
  #now = 0

  constructor(setup: SendingSetup, requests: readonly Request[]) {
    this.#setup = setup
    this.#ids = new Set(requests.flatMap((request) => idOf(request) ?? []))
  }

  // ---- in one command

  async fast(requests: readonly Request[]): Promise<readonly (Standing | undefined)[]> {
    const [only] = requests
    if (requests.length === 1 && only !== undefined) return [await this.#settle(only)]
    const times = new Map<string, number>()
    for (const request of requests) times.set(keyOf(request), (times.get(keyOf(request)) ?? 0) + 1)
    // Several requests of one key must be carried out in their order.
    const isSingle = (request: Request): boolean => times.get(keyOf(request)) === 1
    return Promise.all(requests.map(async (one) => (isSingle(one) ? this.#settle(one) : undefined)))
  }

  async #settle(request: Request): Promise<Standing | undefined> {
    const { store, channel, clock, isContended } = this.#setup
    const key = keyOf(request)
    // Where claims of ours wait the rule must look at the queue anyway.
    if (isContended(key)) return undefined
    const revision = newRevision()
    const command = quickCommand(request, { revision, channel, clock })
    if (command === undefined) return undefined
    const { filter, update, upsert } = command
    try {
      const options = { writeConcern, timeoutMS: this.#leftMs() }
      if (request.op === 'release') {
        const { matchedCount } = await store.collection.updateOne(filter, update, options)
        return matchedCount === 1 ? released : undefined
      }
      const written = { ...options, upsert, returnDocument: 'after', includeResultMetadata: false }
      const stored = (await store.collection.findOneAndUpdate(filter, update, written)) as StoredKey | null
      const [first] = stored?.claims ?? []
      return stored?.revision === revision && first !== undefined ? heldStanding(first) : undefined
    } catch (error) {
      // Refused, nothing was changed: what is wrong is found out by reading.
      if (isDuplicate(error) || isRefused(error)) return undefined
      return { state: 'unknown', error: faultOf(error) }
    }
  }

  // ---- by compare-and-swap

  async load(keys: readonly string[]): Promise<{ now: number; wall: number; loaded: Loaded<Revision>[] }> {
    const { store, clock } = this.#setup
    const startedAt = performance.now()
    try {
      const pipeline = [
        { $match: { _id: { $in: keys } } },
        { $project: readFields },
        // One document comes out, whether or not any goes in: it has the time.
        { $facet: { documents: [{ $match: {} }] } },
        { $set: { now: { $toLong: clock } } },
      ]
      const [page] = (await store.read(pipeline, this.#leftMs())) as { documents: StoredKey[]; now: number | Date }[]
      const byKey = new Map(page?.documents.map(keyed))
      const written = [...byKey.values()].map(({ writtenAt }) => writtenAt ?? 0)
      this.#now = timeOf(Number(page?.now), Math.max(0, ...written), startedAt)
      const loaded = keys.map((key) => {
        const stored = byKey.get(key)
        return stored === undefined ? nothingStored : loadedFrom(stored)
      })
      return { now: this.#now, wall: this.#now, loaded }
    } catch (error) {
      throw faultOf(error)
    }
  }

  swap(swaps: readonly Swap<Revision>[]): Promise<readonly ('swapped' | 'conflict' | { readonly unknown: unknown })[]> {
    return Promise.all(swaps.map((swap) => this.#swap(swap)))
  }

  async #swap(swap: Swap<Revision>): Promise<'swapped' | 'conflict' | { readonly unknown: unknown }> {
    const { collection } = this.#setup.store
    const { revision } = swap.revision
    try {
      const document = this.#encode(swap)
      const options = { writeConcern, timeoutMS: this.#leftMs() }
      if (revision === undefined) {
        await collection.insertOne({ ...document }, options)
        return 'swapped'
      }
      const result = await collection.replaceOne({ _id: swap.key, revision }, { ...document }, options)
      return 'matchedCount' in result && result.matchedCount === 1 ? 'swapped' : 'conflict'
    } catch (error) {
      return isDuplicate(error) ? 'conflict' : { unknown: faultOf(error) }
    }
  }

  #encode({ key, document, revision, news }: Swap<Revision>): StoredKey {
    const { channel } = this.#setup
    const channelOf = (id: string): string => (this.#ids.has(id) ? channel : (revision.channels.get(id) ?? ''))
    const told = news
      .map((one) => encodeNews(one, channelOf(one.record.claim.id)))
      .filter(({ to }) => to !== channel && to !== '')
    return {
      _id: key,
      version: formatVersion,
      revision: newRevision(),
      writtenAt: this.#now,
      lastFence: document.lastFence,
      ...(document.ended !== undefined && { ended: encodeEnded(document.ended) }),
      claims: document.claims.map((record) => encodeRecord(record, channelOf(record.claim.id))),
      ...(told.length > 0 && { news: told }),
      ...freedom(document),
      expiresAt: forgetAt(document),
    }
  }

  /** Tells our own at once; others hear it from the document. */
  tell(news: readonly (News & { readonly key: string })[]): void {
    const { tell, isOwn } = this.#setup
    for (const { key, record, standing } of news) {
      const { id } = record.claim
      if (isOwn(key, id)) queueMicrotask(() => tell(key, id, standing))
    }
  }

  /** What is left of the time this send may take. Within it a paused server cannot keep a renewal waiting. */
  #leftMs(): number {
    const leftMs = Math.floor(this.#setup.deadline - performance.now())
    if (leftMs < 1) throw new OutOfTime()
    return leftMs
  }
}

const released: Standing = { state: 'absent', reason: 'released' }
const nothingStored: Loaded<Revision> = { document: undefined, revision: { revision: undefined, channels: new Map() } }

function idOf(request: Request): string | undefined {
  if (request.op === 'evict') return undefined
  return request.op === 'claim' ? request.claim.id : request.id
}

function newRevision(): string {
  return randomBytes(12).toString('base64url')
}

function keyed(stored: StoredKey): [string, StoredKey] {
  const { _id: key } = stored
  return [key, stored]
}

function loadedFrom(stored: StoredKey): Loaded<Revision> {
  const { _id: key } = stored
  const document: KeyDocument = decodeDocument(key, stored)
  const claims = Array.isArray(stored.claims) ? (stored.claims as StoredKey['claims']) : []
  const channels = new Map(claims.map(({ claim, channel }) => [claim?.id, channel]))
  return { document, revision: { revision: stored.revision, channels } }
}

/**
 * The server's time of a reading. The server looks at its clock when a command begins: what was written while the command
 * waited is newer than that, and would look like the work of a clock set back.
 */
function timeOf(now: number, writtenAt: number, startedAt: number): number {
  return Math.max(now, Math.min(writtenAt, now + Math.ceil(performance.now() - startedAt)))
}
