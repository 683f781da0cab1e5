import type { LockDriver } from '../../../src/core/contract/driver.ts'
import type { Lease, Locks } from '../../../src/index.ts'
import type { SimulatedProcess } from '../../../src/testing/simulation/simulated-process.ts'
import { clientOf } from '../../support/client-of.ts'
import { handleOf, type LeaseHandle } from '../../../src/api/lease/lease-handle.ts'

/**
 * Finds, by true time, leases that their holder would trust for longer than the store keeps them as they are now. A history
 * shows that only if nobody renews before that end and somebody else is granted the lock in between.
 */
export class TrustWatch {
  readonly #store: LockDriver
  readonly #storeRate: number
  readonly #clients = new Map<Locks, SimulatedProcess>()
  /** By id of their claims. */
  readonly #exempt = new Set<string>()
  readonly #found = new Map<string, number>()

  constructor(store: LockDriver, storeRate: number) {
    this.#store = store
    this.#storeRate = storeRate
  }

  /** One more client that may hold leases. */
  add(locks: Locks, process: SimulatedProcess): void {
    this.#clients.set(locks, process)
  }

  /** For a lease whose claim is not all its holder has, or not its holder's alone: it was converted, or given away twice. */
  exempt(lease: Lease): void {
    this.#exempt.add(handleOf(lease).claim.id)
  }

  get found(): readonly string[] {
    return [...this.#found].map(([lease, tooLongMs]) => `${lease}, by ${Math.round(tooLongMs)} ms`)
  }

  /** Checks all clients; called at short intervals. */
  async check(now: number): Promise<void> {
    const keptUntil = new Map<string, number>()
    for (const { claims } of (await this.#store.list({})).keys) {
      for (const { id, state, expiresAt } of claims) {
        if (state === 'held') keptUntil.set(id, expiresAt / this.#storeRate)
      }
    }
    for (const [locks, process] of this.#clients) {
      if (!process.isAlive) this.#clients.delete(locks)
      else for (const lease of clientOf(locks).leases) this.#judge(lease, process.rate, keptUntil, now)
    }
  }

  #judge(lease: LeaseHandle, rate: number, keptUntil: ReadonlyMap<string, number>, now: number): void {
    const { claim, phase, deadline } = lease.claimRuntime.state
    const trustedUntil = deadline / rate
    // At the end of a run `once` asks for less than is left: nobody trusts that lease any more.
    const isTrusted = phase === 'held' && lease.terms.detached !== true && trustedUntil > now
    if (!isTrusted || this.#exempt.has(claim.id)) return
    const tooLongMs = trustedUntil - (keptUntil.get(claim.id) ?? now)
    const name = `${lease.key} ${lease.fence}`
    if (tooLongMs > 0) this.#found.set(name, Math.max(tooLongMs, this.#found.get(name) ?? 0))
  }
}
