import { claimName } from '../../../core/contract/requests.ts'

type ClaimId = { readonly key: string; readonly id: string }

/** A lease that a write of this driver begins anew. */
export interface SentLease {
  /** When that write was sent. */
  readonly sentAt: number
  readonly ttlMs: number
  readonly beat: string
}

interface TrustedLease {
  /** The last that was surely written. */
  readonly written: SentLease | undefined
  /** The last that was sent since, and may have been written. */
  readonly sent: SentLease | undefined
  /** Of all these, the one that is over first: any of them may be what is stored next. */
  readonly shortest: SentLease
}

/** By how much the clock of this process may run slower than true time: the owner allows for it in what is left alone. */
const driftRate = 0.05

/** Leases that are over are swept once there are so many, and then whenever there are twice as many as were left. */
const sweepFrom = 1000

/**
 * Until when the owners of this driver's claims may trust them: counted from before the sending of the write that began the stored
 * lease. If another driver's did, nobody here knows since when others count it.
 */
export class TrustedLeases {
  readonly #leases = new Map<string, TrustedLease>()
  #sweepAt = sweepFrom

  /** A write that begins this lease anew is about to be sent: until it is answered, the shorter lease counts. */
  sending(claim: ClaimId, sent: SentLease): void {
    const before = this.#leases.get(claimName(claim))
    const isShorter = before === undefined || endOf(sent) < endOf(before.shortest)
    this.#add(claim, { written: before?.written, sent, shortest: isShorter ? sent : before.shortest })
  }

  /** That write was carried out. */
  written(claim: ClaimId, written: SentLease): void {
    this.#add(claim, { written, sent: undefined, shortest: written })
  }

  /** How long the owner may trust the claim at `at`, if this beat is stored; 0 or less: not at all, or nothing is known. */
  leftMs(claim: ClaimId, beat: string | undefined, at: number): number {
    const lease = this.#leases.get(claimName(claim))
    if (lease === undefined) return 0
    const stored = [lease.written, lease.sent].find((sent) => sent?.beat === beat)
    return stored === undefined ? 0 : Math.min(leftOf(stored, at), leftOf(lease.shortest, at))
  }

  /** When the write was sent that began the stored lease; undefined: another driver's, or none that is known of. */
  beganAt(claim: ClaimId, beat: string | undefined): number | undefined {
    const lease = this.#leases.get(claimName(claim))
    return lease?.sent === undefined && lease?.written?.beat === beat ? lease?.written?.sentAt : undefined
  }

  has(claim: ClaimId): boolean {
    return this.#leases.has(claimName(claim))
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
    const { sentAt } = lease.sent ?? lease.shortest
    for (const [name, { shortest }] of this.#leases) if (endOf(shortest) < sentAt) this.#leases.delete(name)
    this.#sweepAt = Math.max(sweepFrom, 2 * this.#leases.size)
  }
}

function endOf({ sentAt, ttlMs }: SentLease): number {
  return sentAt + ttlMs
}

function leftOf({ sentAt, ttlMs }: SentLease, at: number): number {
  return ttlMs - (at - sentAt) / (1 - driftRate)
}
