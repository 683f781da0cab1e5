import { partiesOf } from '../core/party-name.ts'
import type { Lease } from './lease.ts'

/** Leases that are held for a party, found by the party: looking must not cost more the more leases there are. */
export class PartyBook {
  readonly #leases = new Map<string, Set<Lease>>()

  add(lease: Lease): void {
    const name = partiesOf(lease.runner.party).at(-1)
    if (name === undefined) return
    const leases = this.#leases.get(name)
    if (leases === undefined) this.#leases.set(name, new Set([lease]))
    else leases.add(lease)
  }

  delete(lease: Lease): void {
    const name = partiesOf(lease.runner.party).at(-1)
    if (name === undefined) return
    const leases = this.#leases.get(name)
    leases?.delete(lease)
    if (leases?.size === 0) this.#leases.delete(name)
  }

  /** What is held by a party, by the bodies it runs in, and by parts of these. */
  *of(party: string | undefined): Iterable<Lease> {
    for (const name of partiesOf(party)) yield* this.#leases.get(name) ?? []
  }
}
