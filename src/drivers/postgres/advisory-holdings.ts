import type { Claim, Request, Standing } from '../../core/driver.ts'

/** A claim that this process holds. Times are of its monotonic clock. */
export interface Holding {
  readonly claim: Claim
  readonly hash: string
  readonly heldSince: number
  fence: number
  ttlMs: number
  lastHeartbeat: number
  renewalCount: number
  expiresAt: number
}

/**
 * What this process holds. The server lets a session have its own lock twice, so who conflicts with whom inside the
 * process is decided here; other processes are the server's business.
 */
export class Holdings {
  readonly #byId = new Map<string, Holding>()
  readonly #byHash = new Map<string, Holding[]>()

  find(id: string): Holding | undefined {
    return this.#byId.get(id)
  }

  add(claim: Claim, hash: string, fence: number, now: number): Holding {
    const { ttlMs } = claim
    const holding: Holding = {
      claim,
      hash,
      heldSince: now,
      fence,
      ttlMs,
      lastHeartbeat: now,
      renewalCount: 0,
      expiresAt: now + ttlMs,
    }
    this.#byId.set(claim.id, holding)
    const others = this.#byHash.get(hash)
    if (others === undefined) this.#byHash.set(hash, [holding])
    else others.push(holding)
    return holding
  }

  remove(holding: Holding): void {
    this.#byId.delete(holding.claim.id)
    const others = (this.#byHash.get(holding.hash) ?? []).filter((one) => one !== holding)
    if (others.length > 0) this.#byHash.set(holding.hash, others)
    else this.#byHash.delete(holding.hash)
  }

  /** Forgets everything: the session is gone, and the locks with it. */
  clear(): readonly Holding[] {
    const all = [...this.#byId.values()]
    this.#byId.clear()
    this.#byHash.clear()
    return all
  }

  /** Those whose time is over. */
  overdue(now: number): readonly Holding[] {
    return [...this.#byId.values()].filter(({ expiresAt }) => now >= expiresAt)
  }

  /** When the first of them ends. */
  nextEnd(): number {
    let next = Infinity
    for (const { expiresAt } of this.#byId.values()) next = Math.min(next, expiresAt)
    return next
  }

  /** Those of this process that hold the key's lock. */
  of(hash: string): readonly Holding[] {
    return this.#byHash.get(hash) ?? []
  }
}

/** How a holding stands. */
export function standingOf(holding: Holding, now: number): Standing {
  return { state: 'held', fence: holding.fence, ttlMs: Math.max(0, Math.floor(holding.expiresAt - now)) }
}

/** Extends a lease. */
export function renew(holding: Holding, request: Extract<Request, { op: 'renew' }>, now: number): void {
  holding.ttlMs = request.ttlMs
  holding.lastHeartbeat = now
  holding.renewalCount += 1
  holding.expiresAt = now + request.ttlMs
  holding.fence = Math.max(holding.fence, request.fenceFloor ?? 0)
}
