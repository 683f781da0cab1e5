import { memory } from '../../../src/drivers/memory/driver.ts'
import type { ClocklessPolling, ClocklessStore, ObservedDocument } from '../../../src/drivers/document/driver.ts'

/** Documents in this process, as text, with a revision each, and no clock. */
export class ClocklessShelf {
  readonly documents = new Map<string, { readonly text: string; readonly revision: number }>()
  /** Each text is parsed once: schedules read it a hundred times. */
  readonly #parsed = new WeakMap<object, ObservedDocument>()
  loads = 0
  swaps = 0

  /** `tellsRevisions`: a swap answers with the new revision, so the driver tries what it knows before it reads. */
  store(polling?: ClocklessPolling, tellsRevisions = false): ClocklessStore<number> {
    return {
      ...(polling && { polling }),
      ...(tellsRevisions && { absentRevision: 0 }),
      clock: 'none',
      name: 'clockless',
      supports: memory().supports,
      open: async () => {},
      close: async () => {},
      load: async (keys) => {
        this.loads += keys.length
        return keys.map((key) => ({ document: this.read(key), revision: this.documents.get(key)?.revision ?? 0 }))
      },
      swap: async (swaps) =>
        swaps.map(({ key, document, revision }) => {
          this.swaps += 1
          if ((this.documents.get(key)?.revision ?? 0) !== revision) return 'conflict'
          this.documents.set(key, { text: JSON.stringify(document), revision: revision + 1 })
          return tellsRevisions ? { written: revision + 1 } : 'swapped'
        }),
      list: async ({ key, prefix = '', after = '', limit = 100 }) => {
        const names = [...this.documents.keys()].toSorted().filter((name) => name > after && name.startsWith(prefix))
        const used = (key === undefined ? names : names.filter((name) => name === key)).filter(
          (name) => this.read(name)?.claims.length !== 0,
        )
        const page = used.slice(0, limit)
        const documents = page.map((name) => ({ key: name, document: this.read(name) as ObservedDocument }))
        const last = page.at(-1)
        return { documents, ...(used.length > page.length && last !== undefined && { next: last }) }
      },
    }
  }

  read(key: string): ObservedDocument | undefined {
    const stored = this.documents.get(key)
    if (stored === undefined) return undefined
    let document = this.#parsed.get(stored)
    if (document === undefined) {
      document = JSON.parse(stored.text) as ObservedDocument
      this.#parsed.set(stored, document)
    }
    return document
  }
}
