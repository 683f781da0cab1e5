import type { Claim } from '../../core/driver.ts'
import type { Node } from './node.ts'
import type { Held } from './verdict.ts'

/** A claim that this driver told its client is held. */
export interface Grant {
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
  readonly seats: Map<Node, Held>
}

/** The claims that are held, as far as this driver told so. Those that nobody releases are forgotten after a while. */
export class Grants {
  readonly #byId = new Map<string, Grant>()

  get(id: string): Grant | undefined {
    return this.#byId.get(id)
  }

  /** Adds a grant, or moves it behind the others after a renewal. */
  put(grant: Grant, now: number): void {
    this.delete(grant.claim.id)
    this.#byId.set(grant.claim.id, grant)
    this.#forgetSome(now)
  }

  delete(id: string): void {
    this.#byId.delete(id)
  }

  /** Looks at a few of the oldest only. Somebody else may be renewing a claim, so it is kept for another ttl. */
  #forgetSome(now: number): void {
    let looks = 4
    for (const [id, grant] of this.#byId) {
      if (looks-- === 0 || now < grant.until + grant.ttlMs) return
      this.#byId.delete(id)
    }
  }
}
