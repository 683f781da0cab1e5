import { describeScope } from '../../core/contract/scope.ts'
import type { LeaseHandle } from '../lease/lease-handle.ts'
import { linesOf } from './origin.ts'
import type { OwnerLeases } from './owner-leases.ts'

/** Most pairs that are remembered: memory must stay bounded. */
const pairsMax = 10_000

/**
 * For development: remembers which lock was taken while another was held, and warns the first time two locks are taken in both
 * orders. Two owners that do so at the same time wait for each other.
 */
export class LockOrder {
  readonly #owners: OwnerLeases
  readonly #warn: (message: string) => void
  /** For each lock, the locks taken while it was held, and where in the code. */
  readonly #after = new Map<string, Map<string, string>>()
  readonly #warned = new Set<string>()
  #pairs = 0

  constructor(owners: OwnerLeases, warn: (message: string) => void) {
    this.#owners = owners
    this.#warn = warn
  }

  /** Compares a lock that its owner has just taken with the locks that the owner holds already. */
  taken(lease: LeaseHandle): void {
    const here = linesOf(lease.terms.origin ?? {})[0] ?? 'at an unknown place'
    const second = describeScope({ key: lease.scope.key })
    for (const held of this.#owners.of(lease.runner.owner)) {
      const first = describeScope({ key: held.scope.key })
      if (first === second || !held.held) continue
      const there = this.#whereAfter(second, first, new Set())
      if (there !== undefined) this.#complain(first, second, here, there)
      this.#remember(first, second, here)
    }
  }

  /** Where `second` was taken after `first`, directly or through others. */
  #whereAfter(first: string, second: string, seen: Set<string>): string | undefined {
    seen.add(first)
    const direct = this.#after.get(first)?.get(second)
    if (direct !== undefined) return direct
    for (const [between, place] of this.#after.get(first) ?? []) {
      if (!seen.has(between) && this.#whereAfter(between, second, seen) !== undefined) return place
    }
    return undefined
  }

  #remember(first: string, second: string, place: string): void {
    let after = this.#after.get(first)
    if (after === undefined) this.#after.set(first, (after = new Map()))
    if (after.has(second) || this.#pairs >= pairsMax) return
    after.set(second, place)
    this.#pairs += 1
  }

  #complain(first: string, second: string, here: string, there: string): void {
    const pair = JSON.stringify([first, second].toSorted())
    if (this.#warned.has(pair)) return
    this.#warned.add(pair)
    const names = `${JSON.stringify(second)} is taken while ${JSON.stringify(first)} is held`
    this.#warn(`Locks are taken in inconsistent order: ${names}, ${here}; the other way round, ${there}.`)
  }
}
