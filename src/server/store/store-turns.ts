/** What a token has with the store at once: requests that claim, those that keep or end claims, and pages of lists. @internal */
export type StoreWork = 'claims' | 'others' | 'pages'

/**
 * How much of each a token may have with the store at once; one call in any case. What others have to wait for in a store that works
 * off one thing after the other. Renewals have more, and of their own: claims must not cost a token its leases.
 *
 * @internal
 */
export const storeWorkMax: Readonly<Record<StoreWork, number>> = { claims: 1000, others: 4000, pages: 4 }

interface Waiting {
  readonly size: number
  readonly begin: () => void
}

interface TokenWork {
  underWay: number
  waiting: Waiting[]
}

/**
 * Bounds what each token has with the store at once. The rest waits here, in its order, so that a tenant's own work is in its way and not that of
 * others. @internal
 */
export class StoreTurns {
  /** By kind of work and token. */
  readonly #tokens = new Map<string, TokenWork>()

  /** Resolves when the work may begin; undefined: at once. Each is followed by one `leave`. */
  enter(token: string, work: StoreWork, size: number): Promise<void> | undefined {
    const name = `${work} ${token}`
    const known = this.#tokens.get(name)
    if (known === undefined) {
      this.#tokens.set(name, { underWay: size, waiting: [] })
      return undefined
    }
    if (known.waiting.length === 0 && known.underWay + size <= storeWorkMax[work]) {
      known.underWay += size
      return undefined
    }
    return new Promise((begin) => known.waiting.push({ size, begin }))
  }

  /** The store has answered, or was not asked after all. */
  leave(token: string, work: StoreWork, size: number): void {
    const name = `${work} ${token}`
    const known = this.#tokens.get(name)
    if (known === undefined) return
    known.underWay -= size
    let begun = 0
    for (const { size: next, begin } of known.waiting) {
      if (known.underWay > 0 && known.underWay + next > storeWorkMax[work]) break
      known.underWay += next
      begun += 1
      begin()
    }
    known.waiting.splice(0, begun)
    if (known.underWay === 0 && known.waiting.length === 0) this.#tokens.delete(name)
  }
}
