/**
 * A full driver over any store that can compare-and-swap one document a key.
 *
 * Each key of a batch is read, put through the rule of `admission.ts` and written back if nobody else wrote meanwhile
 * (`document-swaps.ts`); whoever lost the race reads again. The store brings the clock: a reading that is a little old
 * only makes leases end later than they could, never earlier than their holders were told.
 */
import { listed } from './claim-record.ts'
import { sendBySwapping, type DocumentSwapper } from './document-swaps.ts'
import type { Heard, KeyPage, ListQuery, LockDriver, Request, Standing, Supports } from './driver.ts'
import { systemEnvironment, type Environment } from './time/environment.ts'
import { LeaseholdError } from './errors.ts'
import { decodeKey, type KeyDocument } from './key-document.ts'
import { withinLimits } from './limits.ts'
import { pageLimit } from './paging.ts'

export type { Loaded, Swap } from './document-swaps.ts'

/** What a store must do to be a driver. */
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
  listen?(heard: Heard): Disposable
}

const nothingToDispose: Disposable = { [Symbol.dispose]() {} }

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
    const { now, documents, next } = await this.#store.list({ ...query, limit: pageLimit(query) })
    const keys = documents.map(({ key, document }) => {
      const state = decodeKey(key, document)
      return { key, claims: [...state.holders(), ...state.waiters()].map(listed) }
    })
    const page = { now, keys: keys.filter(({ claims }) => claims.length > 0) }
    return next === undefined ? page : { ...page, next }
  }

  send(requests: readonly Request[]): Promise<readonly Standing[]> {
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  async #sendValid(requests: readonly Request[]): Promise<readonly Standing[]> {
    this.#refuseIfClosed()
    return sendBySwapping(this.#store, requests, this.#environment)
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw new LeaseholdError('CLOSED', `This ${this.name} store has been closed.`)
  }
}
