import type { Claim } from '../../core/contract/driver.ts'
import type { Node } from './node.ts'
import type { HeldStatus } from './verdict.ts'

/** A claim that this driver told its client is held. */
export interface MajorityGrant {
  readonly claim: Claim
  /** As told. It stays the same while the claim is held, whatever single nodes say. */
  fence: number
  /** In force: a renewal may have changed it. */
  ttlMs: number
  readonly grantedAt: number
  /** Until when the client was told it holds. */
  until: number
  /**
   * Nodes where it has been held without a break since before the end told last. Only these count when it is renewed:
   * one that got it late may have been somebody else's in between.
   */
  readonly votes: Map<Node, HeldStatus>
}

/** Which claim is meant. An id by itself may be somebody's for another key: what is told of one must not be told of the other. */
export type ClaimAddress = Pick<Claim, 'key' | 'id'>

/** The claims that are held, as far as this driver told so. Those that nobody releases are forgotten after a while. */
export class Grants {
  readonly #byName = new Map<string, MajorityGrant>()

  get(place: ClaimAddress): MajorityGrant | undefined {
    return this.#byName.get(nameOf(place))
  }

  /** Adds a grant, or moves it behind the others after a renewal. */
  put(grant: MajorityGrant, now: number): void {
    this.delete(grant.claim)
    this.#byName.set(nameOf(grant.claim), grant)
    this.#forgetSome(now)
  }

  delete(place: ClaimAddress): void {
    this.#byName.delete(nameOf(place))
  }

  /** Looks at a few of the oldest only. Somebody else may be renewing a claim, so it is kept for another ttl. */
  #forgetSome(now: number): void {
    let looks = 4
    for (const [name, grant] of this.#byName) {
      if (looks-- === 0 || now < grant.until + grant.ttlMs) return
      this.#byName.delete(name)
    }
  }
}

function nameOf({ key, id }: ClaimAddress): string {
  return `${id.length} ${id}${key}`
}
