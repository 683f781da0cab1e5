/** Rows as this driver left them, so that a change of a row that nobody else uses need not begin with a reading. */

import { noRevision } from './statements.ts'

/** What is known of a row that has one claim at most. */
export interface RecentRow {
  readonly revision: string
  /** Its only claim, which holds; undefined: it has none. */
  readonly sole: { readonly id: string; readonly expiresAt: number } | undefined
}

const rowsMax = 10_000

export class RecentRows {
  readonly #byName = new Map<string, RecentRow & { readonly isQuiet: boolean }>()

  /** The row as it most likely still is. */
  get(name: string): RecentRow | undefined {
    const row = this.#byName.get(name)
    return row?.isQuiet === true ? row : undefined
  }

  /**
   * Notes what was written over the revision `expected`. A row counts as one that nobody else changes if this driver made it, or found
   * its own revision in it: a wrong guess costs a statement.
   */
  put(name: string, expected: string, row: RecentRow): void {
    const isQuiet = expected === noRevision || this.#byName.get(name)?.revision === expected
    this.#byName.delete(name)
    this.#byName.set(name, { ...row, isQuiet })
    if (this.#byName.size <= rowsMax) return
    for (const oldest of this.#byName.keys()) {
      this.#byName.delete(oldest)
      return
    }
  }

  forget(name: string): void {
    this.#byName.delete(name)
  }
}
