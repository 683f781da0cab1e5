import type { ObservedDocument } from './observed-document.ts'

/** A document that this process has written, and the revision that the store gave it. */
export interface WrittenDocument<Revision> {
  readonly document: ObservedDocument
  readonly revision: Revision
}

const keysMax = 10_000
/** A store that was restored may give a revision to another document: none is remembered for as long as a restore takes. */
const lastsMs = 1000

/** Documents just written, so that the next swap of a key can be tried without a reading. */
export class RecentDocuments<Revision> {
  readonly #byKey = new Map<string, WrittenDocument<Revision> & { readonly at: number }>()

  /** The document as it was written; undefined: not lately, or others have most likely changed it since. */
  get(key: string, now: number): WrittenDocument<Revision> | undefined {
    const written = this.#byKey.get(key)
    return written === undefined || now - written.at > lastsMs ? undefined : written
  }

  /** `at`: before the document was sent. */
  put(key: string, { document, revision }: WrittenDocument<Revision>, at: number): void {
    this.#byKey.delete(key)
    // Whoever waits writes, too.
    if (document.claims.length > 1) return
    this.#byKey.set(key, { document, revision, at })
    if (this.#byKey.size <= keysMax) return
    for (const oldest of this.#byKey.keys()) {
      this.#byKey.delete(oldest)
      return
    }
  }

  forget(key: string): void {
    this.#byKey.delete(key)
  }
}
