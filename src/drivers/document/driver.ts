/**
 * Locks in any store that can compare-and-swap one document a key: for stores that Leasehold has no driver for.
 *
 * Each key of a batch is read, put through the rule of `admission.ts` and written back if nobody else wrote meanwhile
 * (`document-swaps.ts`); a key that lost the race is read again. The clock is the store's: if it was read before the document,
 * leases end later than they could, never earlier than their holders were told.
 */
import { sendBySwapping, type DocumentSwapper } from './document-swaps.ts'
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
import { systemEnvironment, type Environment } from '../../core/time/environment.ts'
import { listedKey, type KeyDocument } from './key-document.ts'
import { withinLimits } from '../../core/contract/limits.ts'
import { Lifecycle } from '../kit/lifecycle.ts'
import { cutKey, pageLimit } from '../kit/paging.ts'
import type { ClocklessStore } from './observed/clockless-store.ts'
import { ObservedDriver } from './observed/observed-driver.ts'
import { timeAtReading } from './reading-time.ts'

export type { Loaded, Swap } from './document-swaps.ts'
export type { KeyDocument } from './key-document.ts'
export type {
  ClocklessPolling,
  ClocklessStore,
  LoadedObserved,
  ObservedSwapper,
  SwapObserved,
} from './observed/clockless-store.ts'
export type { ObservedDocument } from './observed/observed-document.ts'
export { mayForget } from '../../core/rule/fence.ts'
export { fullSupport } from '../../core/contract/supports.ts'

/** A store that {@link documentDriver} makes a driver of. */
export interface DocumentStore<Revision> extends DocumentSwapper<Revision> {
  readonly name: string
  readonly supports: Supports
  open(): Promise<void>
  close(): Promise<void>
  /** Stored documents, in the store's order. */
  list(query: ListQuery): Promise<{
    readonly now: number
    readonly documents: readonly { readonly key: string; readonly document: KeyDocument }[]
    readonly next?: string
  }>
  listen?(onNotification: OnNotification, onGap?: OnGap): Disposable
  /** As of {@link LockDriver.dataAgeMs}. */
  dataAgeMs?(): Promise<number>
}

const nothingToDispose: Disposable = { [Symbol.dispose]() {} }

/**
 * The driver over a document store, with a clock or without.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { documentDriver, type DocumentStore } from 'leasehold/document'
 *
 * declare const store: DocumentStore<string> // Yours: see docs/stores/document.md.
 * await using locks = await createLocks({ driver: documentDriver(store) })
 * ```
 */
export function documentDriver<Revision>(store: DocumentStore<Revision>, environment?: Environment): LockDriver
/** The driver over a document store that has no clock to ask: each process counts leases by its own. */
export function documentDriver<Revision>(store: ClocklessStore<Revision>, environment?: Environment): LockDriver
export function documentDriver<Revision>(
  store: DocumentStore<Revision> | ClocklessStore<Revision>,
  environment: Environment = systemEnvironment(),
): LockDriver {
  return 'clock' in store ? new ObservedDriver(store, environment) : new DocumentDriver(store, environment)
}

class DocumentDriver<Revision> implements LockDriver {
  readonly name: string
  readonly supports: Supports
  readonly listen?: NonNullable<LockDriver['listen']>
  readonly dataAgeMs?: () => Promise<number>
  readonly #store: DocumentStore<Revision>
  readonly #swapper: DocumentSwapper<Revision>
  readonly #environment: Environment
  readonly #lifecycle: Lifecycle<true>

  constructor(store: DocumentStore<Revision>, environment: Environment) {
    this.#store = store
    this.#swapper = swapperFor(store, environment)
    this.#environment = environment
    this.name = store.name
    this.#lifecycle = new Lifecycle(
      `This ${store.name} store`,
      async (): Promise<true> => {
        await store.open()
        return true
      },
      // Once more: what `open` has opened since, the first call could not close.
      () => store.close(),
    )
    this.supports = store.supports
    if (store.listen !== undefined)
      this.listen = (onNotification, onGap) => store.listen?.(onNotification, onGap) ?? nothingToDispose
    if (store.dataAgeMs !== undefined) this.dataAgeMs = store.dataAgeMs.bind(store)
  }

  async open(): Promise<void> {
    await this.#lifecycle.opened()
  }

  async close(): Promise<void> {
    this.#lifecycle.shut()
    await this.#store.close()
  }

  async list(query: ListQuery): Promise<KeyPage> {
    this.#lifecycle.refuseIfShut()
    const { now, documents, next } = await this.#store.list({ ...query, limit: pageLimit(query) })
    const keys = documents.flatMap(({ key, document }) => listedKey(key, document, query) ?? [])
    const page = { now, keys: keys.filter(({ claims }) => claims.length > 0).map((key) => cutKey(key, query)) }
    return next === undefined ? page : { ...page, next }
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  async #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    this.#lifecycle.refuseIfShut()
    return sendBySwapping(this.#swapper, requests, this.#environment)
  }
}

/**
 * What any store needs beside the rule. Its clock may have been read before the documents. And every document gets a nonce: a
 * queue can come back to what it was, and a store whose revision is a hash of the content would then carry out a swap that was
 * sent before and comes late.
 */
function swapperFor<Revision>(store: DocumentStore<Revision>, environment: Environment): DocumentSwapper<Revision> {
  return {
    async load(keys) {
      const askedAt = environment.now()
      const { now, wall, loaded } = await store.load(keys)
      const claims = loaded.flatMap(({ document }) => document?.claims ?? [])
      return { now: timeAtReading(now, environment.now() - askedAt, claims), wall, loaded }
    },
    swap: (swaps) =>
      store.swap(swaps.map((swap) => ({ ...swap, document: { ...swap.document, nonce: environment.id() } }))),
    ...(store.absorbs !== undefined && { absorbs: store.absorbs.bind(store) }),
    ...(store.fast !== undefined && { fast: store.fast.bind(store) }),
    ...(store.notify !== undefined && { notify: store.notify.bind(store) }),
  }
}
