/**
 * A full driver over any store that can compare-and-swap one document a key.
 *
 * Each key of a batch is read, put through the rule of `admission.ts` and written back if nobody else wrote meanwhile;
 * whoever lost the race reads again. The store brings the clock: a reading that is a little old only makes leases end
 * later than they could, never earlier than their holders were told.
 */
import { admit, type News } from './admission.ts'
import { pauseMs, type Backoff } from './backoff.ts'
import { keyOf } from './batcher.ts'
import { listed } from './claim-record.ts'
import type { Heard, KeyPage, ListQuery, LockDriver, Request, Standing, Supports } from './driver.ts'
import { systemEnvironment, type Environment } from './environment.ts'
import { LeaseholdError } from './errors.ts'
import { fenceFloor } from './fence.ts'
import { decodeKey, encodeKey, type KeyDocument } from './key-document.ts'

/** A document as read, with what the store needs to notice that it has changed since. */
export interface Loaded<Revision> {
  readonly document: KeyDocument | undefined
  readonly revision: Revision
}

export interface Swap<Revision> {
  readonly key: string
  readonly document: KeyDocument
  /** The revision the document was read at. */
  readonly revision: Revision
  /** Nobody holds or waits: the store may drop the document once `mayForget` its last fence. */
  readonly idle: boolean
}

/** What a store must do to be a driver. */
export interface DocumentStore<Revision> {
  readonly name: string
  readonly supports: Supports
  open(): Promise<void>
  close(): Promise<void>
  /** Reads the keys, each as it is now, and the store's clocks: `now` in whole milliseconds, `wall` since 1970. */
  load(keys: readonly string[]): Promise<{
    readonly now: number
    readonly wall: number
    readonly loaded: readonly Loaded<Revision>[]
  }>
  /** Writes each document whose revision is unchanged. `unknown`: it cannot be said whether it was written. */
  swap(swaps: readonly Swap<Revision>[]): Promise<readonly ('swapped' | 'conflict' | { readonly unknown: unknown })[]>
  /** Stored documents, in the store's order. */
  list(query: ListQuery): Promise<{
    readonly now: number
    readonly documents: readonly { readonly key: string; readonly document: KeyDocument }[]
    readonly next?: string
  }>
  /** Answers in one round trip what it can, such as a claim on an idle key; undefined where the rule must decide. */
  fast?(requests: readonly Request[]): Promise<readonly (Standing | undefined)[]>
  /** Tells other clients. A hint: may fail, may be lost. */
  tell?(news: readonly (News & { readonly key: string })[]): void
  listen?(heard: Heard): Disposable
}

const nothingToDispose: Disposable = { [Symbol.dispose]() {} }

/** How long to go on after lost races before giving up on a key. */
const races: Backoff = { attempts: 50, minMs: 1, maxMs: 100, factor: 1.5, jitter: 0.5 }

/** Requests for one key, with their places in the batch. */
interface KeyWork {
  readonly key: string
  readonly requests: { readonly request: Request; readonly place: number }[]
}

/** The driver over a document store. */
export function documentDriver<Revision>(
  store: DocumentStore<Revision>,
  environment: Environment = systemEnvironment(),
): LockDriver {
  return new DocumentDriver(store, environment)
}

class DocumentDriver<Revision> implements LockDriver {
  readonly name: string
  readonly supports: Supports
  readonly listen?: (heard: Heard) => Disposable
  readonly #store: DocumentStore<Revision>
  readonly #environment: Environment
  #closed = false

  constructor(store: DocumentStore<Revision>, environment: Environment) {
    this.#store = store
    this.#environment = environment
    this.name = store.name
    this.supports = store.supports
    if (store.listen !== undefined) this.listen = (heard) => store.listen?.(heard) ?? nothingToDispose
  }

  open(): Promise<void> {
    return this.#store.open()
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#store.close()
  }

  async list(query: ListQuery): Promise<KeyPage> {
    this.#refuseIfClosed()
    const { now, documents, next } = await this.#store.list(query)
    const keys = documents.map(({ key, document }) => {
      const state = decodeKey(key, document)
      return { key, claims: [...state.holders(), ...state.waiters()].map(listed) }
    })
    const page = { now, keys: keys.filter(({ claims }) => claims.length > 0) }
    return next === undefined ? page : { ...page, next }
  }

  async send(requests: readonly Request[]): Promise<readonly Standing[]> {
    this.#refuseIfClosed()
    const answers: (Standing | undefined)[] = [
      ...((await this.#store.fast?.(requests)) ?? requests.map(() => undefined)),
    ]
    let work = group(requests, answers)
    for (let round = 1; work.length > 0; round += 1) {
      work = await this.#race(work, answers)
      if (work.length === 0) break
      if (round >= races.attempts) {
        for (const { key, requests: lost } of work) for (const { place } of lost) answers[place] = crowded(key)
        break
      }
      await this.#pause(pauseMs(races, round, this.#environment.random()))
    }
    return answers.map((standing) => standing ?? crowded(''))
  }

  /** One try for each key. Answers those it could settle and gives back the rest. */
  async #race(work: readonly KeyWork[], answers: (Standing | undefined)[]): Promise<KeyWork[]> {
    const { now, wall, loaded } = await this.#store.load(work.map(({ key }) => key))
    const swaps: (Swap<Revision> & {
      readonly work: KeyWork
      readonly standings: Standing[]
      readonly news: News[]
    })[] = []
    for (const [index, one] of work.entries()) {
      const { document, revision } = loaded[index] as Loaded<Revision>
      const state = decodeKey(one.key, document)
      // Without a record the last fence is not known: begin past every one that can have been minted.
      state.fenceFloor = document === undefined ? fenceFloor(wall) : 0
      const standings: Standing[] = []
      const news: News[] = []
      let changed = false
      for (const { request } of one.requests) {
        const verdict = admit(state, request, now)
        changed ||= verdict.changes.length > 0 || verdict.lastFence !== state.lastFence || verdict.ended !== state.ended
        state.apply(verdict)
        standings.push(verdict.standing)
        news.push(...verdict.news)
      }
      if (changed) {
        swaps.push({ key: one.key, document: encodeKey(state), revision, idle: state.idle, work: one, standings, news })
      } else {
        answer(one, standings, answers)
      }
    }
    if (swaps.length === 0) return []
    const results = await this.#store.swap(swaps)
    const again: KeyWork[] = []
    for (const [index, swap] of swaps.entries()) {
      const result = results[index]
      if (result === 'swapped') {
        answer(swap.work, swap.standings, answers)
        if (swap.news.length > 0) this.#store.tell?.(swap.news.map((one) => ({ ...one, key: swap.key })))
      } else if (result === 'conflict') {
        again.push(swap.work)
      } else {
        const unknown: Standing = { state: 'unknown', error: result?.unknown }
        answer(
          swap.work,
          swap.standings.map(() => unknown),
          answers,
        )
      }
    }
    return again
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw new LeaseholdError('CLOSED', `This ${this.name} store has been closed.`)
  }

  #pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => this.#environment.timer(milliseconds, resolve).keepAlive(true))
  }
}

function group(requests: readonly Request[], answers: readonly (Standing | undefined)[]): KeyWork[] {
  const byKey = new Map<string, KeyWork>()
  for (const [place, request] of requests.entries()) {
    if (answers[place] !== undefined) continue
    const key = keyOf(request)
    const work = byKey.get(key)
    if (work === undefined) byKey.set(key, { key, requests: [{ request, place }] })
    else work.requests.push({ request, place })
  }
  return [...byKey.values()]
}

function answer(work: KeyWork, standings: readonly Standing[], answers: (Standing | undefined)[]): void {
  for (const [index, { place }] of work.requests.entries()) answers[place] = standings[index]
}

/** Nothing was written: the outcome is known, but there is no standing to tell. */
function crowded(key: string): Standing {
  const error = new LeaseholdError('UNAVAILABLE', `Too many clients change ${JSON.stringify(key)} at once.`, {
    reason: 'busy',
    key,
  })
  return { state: 'unknown', error }
}
