import type { Claim, HeldStatus } from '../../core/contract/driver.ts'
import { claimName } from '../../core/contract/requests.ts'
import type { Node } from './node.ts'

/** A claim that this driver has answered `held`. */
export interface MajorityGrant {
  readonly claim: Claim
  /** As answered. It stays the same while the claim is held, whatever single nodes have. */
  fence: number
  /** In force: a renewal may have changed it. */
  ttlMs: number
  readonly grantedAt: number
  /** The end of the lease, as last answered. */
  until: number
  /**
   * The nodes that have held the claim without a break since before `until` as answered last. Only these count when the claim is
   * renewed: another node may have granted the lock to somebody else in between.
   */
  readonly votes: Map<Node, HeldStatus>
}

type ClaimAddress = Pick<Claim, 'key' | 'id'>

/** The claims that this driver has answered `held`. Those that nobody releases are forgotten a ttl after their end. */
export class Grants {
  readonly #byName = new Map<string, MajorityGrant>()

  get(address: ClaimAddress): MajorityGrant | undefined {
    return this.#byName.get(claimName(address))
  }

  /** Adds a grant, or moves it behind the others after a renewal. */
  put(grant: MajorityGrant, now: number): void {
    this.delete(grant.claim)
    this.#byName.set(claimName(grant.claim), grant)
    this.#forgetSome(now)
  }

  delete(address: ClaimAddress): void {
    this.#byName.delete(claimName(address))
  }

  /** Checks a few of the oldest. Another process may be renewing a claim, so it is kept for another ttl. */
  #forgetSome(now: number): void {
    let checksLeft = 4
    for (const [name, grant] of this.#byName) {
      if (checksLeft-- === 0 || now < grant.until + grant.ttlMs) return
      this.#byName.delete(name)
    }
  }
}
