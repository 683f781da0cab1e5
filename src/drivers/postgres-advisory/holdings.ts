import type { Claim, Request, ClaimStatus } from '../../core/contract/driver.ts'

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

const nobody: readonly Holding[] = []

/**
 * What this process holds. The server lets a session have its own lock twice, so who conflicts with whom inside the
 * process is decided here; other processes are the server's business.
 */
export class Holdings {
  readonly #byKeyAndId = new Map<string, Holding>()
  readonly #byHash = new Map<string, Holding[]>()
  #nextEnd = Infinity

  /** The claim of this key with this id: the same id of another key is another claim. */
  find(key: string, id: string): Holding | undefined {
    return this.#byKeyAndId.get(keyAndId(key, id))
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
    this.#endsAt(holding.expiresAt)
    this.#byKeyAndId.set(keyAndId(claim.key, claim.id), holding)
    const others = this.#byHash.get(hash)
    if (others === undefined) this.#byHash.set(hash, [holding])
    else others.push(holding)
    return holding
  }

  /** Extends a lease. */
  renew(holding: Holding, request: Extract<Request, { op: 'renew' }>, now: number): void {
    holding.ttlMs = request.ttlMs
    holding.lastHeartbeat = now
    holding.renewalCount += 1
    holding.expiresAt = now + request.ttlMs
    holding.fence = Math.max(holding.fence, request.fenceFloor ?? 0)
    this.#endsAt(holding.expiresAt)
  }

  remove(holding: Holding): void {
    this.#byKeyAndId.delete(keyAndId(holding.claim.key, holding.claim.id))
    const others = this.of(holding.hash)
    if (others.length <= 1) this.#byHash.delete(holding.hash)
    else
      this.#byHash.set(
        holding.hash,
        others.filter((one) => one !== holding),
      )
  }

  /** Forgets everything: the session is gone, and the locks with it. */
  clear(): readonly Holding[] {
    const all = [...this.#byKeyAndId.values()]
    this.#byKeyAndId.clear()
    this.#byHash.clear()
    return all
  }

  /** Those whose time is over. */
  expired(now: number): readonly Holding[] {
    if (now < this.#nextEnd) return nobody
    const over = [...this.#byKeyAndId.values()].filter(({ expiresAt }) => now >= expiresAt)
    this.#nextEnd = Infinity
    for (const { expiresAt } of this.#byKeyAndId.values()) if (now < expiresAt) this.#endsAt(expiresAt)
    return over
  }

  /** No lease ends before this. */
  get nextEnd(): number {
    return this.#nextEnd
  }

  #endsAt(time: number): void {
    this.#nextEnd = Math.min(this.#nextEnd, time)
  }

  /** Those of this process that hold the key's lock. */
  of(hash: string): readonly Holding[] {
    return this.#byHash.get(hash) ?? nobody
  }
}

function keyAndId(key: string, id: string): string {
  return `${id.length} ${id}${key}`
}

/** How a holding stands. */
export function claimStatusOf(holding: Holding, now: number): ClaimStatus {
  return { state: 'held', fence: holding.fence, ttlMs: Math.max(0, Math.floor(holding.expiresAt - now)) }
}
