import { claimName } from '../../../core/contract/requests.ts'

type ClaimId = { readonly key: string; readonly id: string }

interface TrustedLease {
  /** When the write was sent that began the lease, or that may have. */
  readonly sentAt: number
  readonly ttlMs: number
  readonly isWritten: boolean
}

/** By how much the clock of this process may run slower than true time: the owner allows for it in what is left alone. */
const driftRate = 0.05

/** Leases that are over are swept once there are so many, and then whenever there are twice as many as were left. */
const sweepFrom = 1000

/**
 * Until when the owners of this driver's claims may trust them, whatever happens to be stored: counted from before the
 * sending of the last write that began the lease anew, or that may have. An answer that wrote no new beat gives no more.
 */
export class TrustedLeases {
  readonly #leases = new Map<string, TrustedLease>()
  #sweepAt = sweepFrom

  /** A write that begins this lease anew is about to be sent: until it is answered, the shorter lease counts. */
  sending(claim: ClaimId, sentAt: number, ttlMs: number): void {
    const lease = this.#leases.get(claimName(claim))
    const isShorter = lease === undefined || sentAt + ttlMs < lease.sentAt + lease.ttlMs
    if (isShorter) this.#add(claim, { sentAt, ttlMs, isWritten: false })
  }

  /** That write was carried out. */
  written(claim: ClaimId, sentAt: number, ttlMs: number): void {
    this.#add(claim, { sentAt, ttlMs, isWritten: true })
  }

  /** How long the owner may trust the claim at `at`; 0 or less: not at all, or nothing is known. */
  leftMs(claim: ClaimId, at: number): number {
    const lease = this.#leases.get(claimName(claim))
    return lease === undefined ? 0 : lease.ttlMs - (at - lease.sentAt) / (1 - driftRate)
  }

  /** When the write was sent that began the lease; undefined: another driver's, or none that is known of. */
  beganAt(claim: ClaimId): number | undefined {
    const lease = this.#leases.get(claimName(claim))
    return lease?.isWritten === true ? lease.sentAt : undefined
  }

  forget(claim: ClaimId): void {
    this.#leases.delete(claimName(claim))
  }

  clear(): void {
    this.#leases.clear()
  }

  #add(claim: ClaimId, lease: TrustedLease): void {
    this.#leases.set(claimName(claim), lease)
    if (this.#leases.size < this.#sweepAt) return
    for (const [name, { sentAt, ttlMs }] of this.#leases) {
      if (sentAt + ttlMs < lease.sentAt) this.#leases.delete(name)
    }
    this.#sweepAt = Math.max(sweepFrom, 2 * this.#leases.size)
  }
}
