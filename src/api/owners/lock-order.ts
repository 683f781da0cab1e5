import { describeScope } from '../../core/contract/scope.ts'
import type { LeaseHandle } from '../lease/lease-handle.ts'
import { linesOf } from './origin.ts'
import type { OwnerLeases } from './owner-leases.ts'

/** Pairs remembered: this is for development, and must not grow for ever. */
const pairsMax = 10_000

/**
 * Remembers which locks were taken while which others were held, and warns the first time two are taken both ways round:
 * two owners that do so at once wait for each other. For development.
 */
export class LockOrder {
  readonly #owners: OwnerLeases
  readonly #warn: (message: string) => void
  /** What was taken after what, and where. */
  readonly #after = new Map<string, Map<string, string>>()
  readonly #warned = new Set<string>()
  #pairs = 0

  constructor(owners: OwnerLeases, warn: (message: string) => void) {
    this.#owners = owners
    this.#warn = warn
  }

  /** An owner has taken a lock, with others in its hands perhaps. */
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
