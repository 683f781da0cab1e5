import type { LockDriver } from '../../../src/core/contract/driver.ts'
import type { Locks } from '../../../src/index.ts'
import { clientOf } from '../../support/client-of.ts'

/**
 * Finds claims that the store has and no client knows of, which nobody would renew or release. Only where nothing is lost
 * and nobody is killed. A lease that its holder was told to be lost is its holder's to let go, and not meant.
 */
export class OrphanWatch {
  readonly #store: LockDriver
  readonly #clients = new Set<Locks>()
  /** By key and fence. */
  readonly #lost = new Set<string>()
  readonly #found = new Set<string>()
  #before = new Set<string>()

  constructor(store: LockDriver) {
    this.#store = store
  }

  /** One more client that may know of claims. */
  add(locks: Locks): void {
    this.#clients.add(locks)
    locks.on('lost', ({ key, fence }) => void this.#lost.add(`${key} ${fence}`))
  }

  get found(): readonly string[] {
    return [...this.#found]
  }

  /** To be called again and again: what is unknown twice was forgotten. */
  async check(): Promise<void> {
    const { now, keys } = await this.#store.list({})
    const unknown = new Set<string>()
    for (const { key, claims } of keys) {
      for (const { id, state, fence, detached, expiresAt } of claims) {
        const isOver = detached === true || expiresAt <= now || this.#lost.has(`${key} ${fence}`)
        if (!isOver && !this.#isKnown(id)) unknown.add(`${key} ${state} ${id}`)
      }
    }
    for (const claim of unknown) if (this.#before.has(claim)) this.#found.add(claim)
    this.#before = unknown
  }

  #isKnown(id: string): boolean {
    for (const locks of this.#clients) if (clientOf(locks).claimRuntimes.get(id) !== undefined) return true
    return false
  }
}
