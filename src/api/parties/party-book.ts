import { innermost, partiesOf } from '../../core/parties/party-name.ts'
import type { LeaseHandle } from '../lease-handle.ts'

/** Leases that are held for a party, found by the party: looking must not cost more the more leases there are. */
export class PartyBook {
  readonly #leases = new Map<string, LeaseHandle[]>()

  add(lease: LeaseHandle): void {
    const name = innermost(lease.runner.party)
    if (name === undefined) return
    const leases = this.#leases.get(name)
    if (leases === undefined) this.#leases.set(name, [lease])
    else leases.push(lease)
  }

  delete(lease: LeaseHandle): void {
    const name = innermost(lease.runner.party)
    const leases = name === undefined ? undefined : this.#leases.get(name)
    if (name === undefined || leases === undefined) return
    const left = leases.filter((other) => other !== lease)
    if (left.length === 0) this.#leases.delete(name)
    else this.#leases.set(name, left)
  }

  /** What is held by a party, by the bodies it runs in, and by parts of these. */
  of(party: string | undefined): readonly LeaseHandle[] {
    if (this.#leases.size === 0) return []
    return partiesOf(party).flatMap((name) => this.#leases.get(name) ?? [])
  }
}
