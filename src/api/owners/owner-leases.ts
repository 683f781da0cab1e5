import { innermostOwner, isOwn, ownersOf } from '../../core/contract/owner-name.ts'
import type { LeaseHandle } from '../lease/lease-handle.ts'

/** Held leases by owner: finding the leases of one owner must not take longer the more leases there are. */
export class OwnerLeases {
  readonly #leases = new Map<string, LeaseHandle[]>()

  add(lease: LeaseHandle): void {
    const name = innermostOwner(lease.runner.owner)
    if (name === undefined) return
    const leases = this.#leases.get(name)
    if (leases === undefined) this.#leases.set(name, [lease])
    else leases.push(lease)
  }

  delete(lease: LeaseHandle): void {
    const name = innermostOwner(lease.runner.owner)
    const leases = name === undefined ? undefined : this.#leases.get(name)
    if (name === undefined || leases === undefined) return
    const left = leases.filter((kept) => kept !== lease)
    if (left.length === 0) this.#leases.delete(name)
    else this.#leases.set(name, left)
  }

  /** The leases of an owner, of the bodies it runs in, and of parts of these. */
  of(owner: string | undefined): readonly LeaseHandle[] {
    if (this.#leases.size === 0) return []
    return ownersOf(owner).flatMap((name) => this.#leases.get(name) ?? [])
  }

  /**
   * The scope keys, up to `most`, of locks that are not let go of while this owner waits: those it holds itself, and those of the bodies
   * it runs in. A detached lease may have been handed to another process.
   */
  keysHeldBy(owner: string, most: number): readonly string[] {
    const keys = new Set<string>()
    for (const lease of this.of(owner)) {
      if (!isOwn(owner, lease.runner.owner) || lease.terms.detached === true || !lease.held) continue
      keys.add(lease.scope.key)
      if (keys.size === most) break
    }
    return [...keys]
  }
}
