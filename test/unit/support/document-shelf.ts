import type { DocumentStore, Loaded, Swap } from '../../../src/drivers/document/driver.ts'
import type { OnNotification, Supports } from '../../../src/core/contract/driver.ts'
import type { KeyDocument } from '../../../src/drivers/document/key-document.ts'
import { memory } from '../../../src/drivers/memory/driver.ts'

/** Documents in this process, as text, with a revision each: the smallest store that can compare and swap. */
export class DocumentShelf {
  readonly documents = new Map<string, { readonly text: string; readonly revision: number }>()
  readonly listeners = new Set<OnNotification>()
  /** The store's clock, unless it was given another. */
  time = 5_000
  readonly #clock: () => number
  /** Runs between a read and the write that follows it: the place where another client is quicker. */
  betweenReadAndWrite: () => void = () => {}
  /** Says of the next write that its outcome is not known, though it was carried out. */
  loseNextReply = false
  loads = 0
  swaps = 0

  constructor(clock?: () => number) {
    this.#clock = clock ?? (() => this.time)
  }

  store(): DocumentStore<number> {
    const supports: Supports = memory().supports
    const receivedHere = new Set<OnNotification>()
    return {
      name: 'shelf',
      supports,
      open: async () => {},
      close: async () => {
        for (const received of receivedHere) this.listeners.delete(received)
      },
      load: async (keys) => {
        this.loads += 1
        const loaded = keys.map((key) => this.#read(key))
        this.betweenReadAndWrite()
        const now = this.#clock()
        return { now, wall: 1_700_000_000_000 + now, loaded }
      },
      swap: async (swaps) => swaps.map((swap) => this.#swap(swap)),
      list: async (query) => {
        const names = [...this.documents.keys()].toSorted().filter((key) => {
          if (query.key !== undefined) return key === query.key
          return key.startsWith(query.prefix ?? '') && (query.after === undefined || key > query.after)
        })
        const used = names.filter((key) => (this.#read(key).document?.claims.length ?? 0) > 0)
        const page = used.slice(0, query.limit ?? 100)
        const documents = page.map((key) => ({ key, document: this.#read(key).document as KeyDocument }))
        const last = page.at(-1)
        return { now: this.#clock(), documents, ...(used.length > page.length && last !== undefined && { next: last }) }
      },
      notify: (notification) => {
        for (const { key, record, status } of notification) {
          queueMicrotask(() => this.listeners.forEach((received) => received(key, record.claim.id, status)))
        }
      },
      listen: (received) => {
        this.listeners.add(received)
        receivedHere.add(received)
        return { [Symbol.dispose]: () => void this.listeners.delete(received) }
      },
    }
  }

  #read(key: string): Loaded<number> {
    const stored = this.documents.get(key)
    if (stored === undefined) return { document: undefined, revision: 0 }
    return { document: JSON.parse(stored.text) as KeyDocument, revision: stored.revision }
  }

  #swap({ key, document, revision }: Swap<number>): 'swapped' | 'conflict' | { readonly unknown: unknown } {
    this.swaps += 1
    if ((this.documents.get(key)?.revision ?? 0) !== revision) return 'conflict'
    this.documents.set(key, { text: JSON.stringify(document), revision: revision + 1 })
    if (!this.loseNextReply) return 'swapped'
    this.loseNextReply = false
    return { unknown: new Error('the reply was lost') }
  }
}
