import type { Claim, ClaimStatus, Request } from '../../core/contract/driver.ts'
import { claimName } from '../../core/contract/requests.ts'

/** A claim that this process holds. Times are of the process's monotonic clock. */
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

const none: readonly Holding[] = []

/**
 * The claims that this process holds. The server lets a session take its own lock twice, so conflicts inside the process are
 * decided here, and those with other processes by the server.
 */
export class Holdings {
  readonly #byName = new Map<string, Holding>()
  readonly #byHash = new Map<string, Holding[]>()
  #nextEnd = Infinity

  /** The claim of this key with this id: the same id of another key is another claim. */
  find(key: string, id: string): Holding | undefined {
    return this.#byName.get(claimName({ key, id }))
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
    this.#byName.set(claimName(claim), holding)
    const sharers = this.#byHash.get(hash)
    if (sharers === undefined) this.#byHash.set(hash, [holding])
    else sharers.push(holding)
    return holding
  }

  renew(holding: Holding, request: Extract<Request, { op: 'renew' }>, now: number): void {
    holding.ttlMs = request.ttlMs
    holding.lastHeartbeat = now
    holding.renewalCount += 1
    holding.expiresAt = now + request.ttlMs
    holding.fence = Math.max(holding.fence, request.fenceFloor ?? 0)
    this.#endsAt(holding.expiresAt)
  }

  remove(holding: Holding): void {
    this.#byName.delete(claimName(holding.claim))
    const rest = this.of(holding.hash).filter((sharer) => sharer !== holding)
    if (rest.length === 0) this.#byHash.delete(holding.hash)
    else this.#byHash.set(holding.hash, rest)
  }

  /** Forgets all holdings, as their session is gone, and returns them. */
  clear(): readonly Holding[] {
    const all = [...this.#byName.values()]
    this.#byName.clear()
    this.#byHash.clear()
    return all
  }

  /** The holdings whose leases have ended. */
  expired(now: number): readonly Holding[] {
    if (now < this.#nextEnd) return none
    const expired = [...this.#byName.values()].filter(({ expiresAt }) => now >= expiresAt)
    this.#nextEnd = Infinity
    for (const { expiresAt } of this.#byName.values()) if (now < expiresAt) this.#endsAt(expiresAt)
    return expired
  }

  /** No lease ends before this. */
  get nextEnd(): number {
    return this.#nextEnd
  }

  #endsAt(time: number): void {
    this.#nextEnd = Math.min(this.#nextEnd, time)
  }

  /** The holdings of a lock: one, or several that share it. */
  of(hash: string): readonly Holding[] {
    return this.#byHash.get(hash) ?? none
  }
}

/** The claim status of a holding. */
export function claimStatusOf(holding: Holding, now: number): ClaimStatus {
  return { state: 'held', fence: holding.fence, ttlMs: Math.max(0, Math.floor(holding.expiresAt - now)) }
}
