import { keyOf } from '../../core/contract/requests.ts'
import type { Request, ClaimStatus, HeldStatus, WaitingStatus } from '../../core/contract/driver.ts'
import { TimerQueue, type TimerTask, type TimerBucket } from '../../core/time/timer-queue.ts'
import type { Environment } from '../../core/time/environment.ts'

/** A claim that this driver was last asked about and that is not over, as far as it knows. */
export class OwnClaim implements TimerTask {
  readonly key: string
  readonly id: string
  readonly replaces: string | undefined
  /** `asked`: it is not known whether it was made, and it may be made yet. */
  state: 'held' | 'waiting' | 'asked' = 'asked'
  /** How many stood before it when it was last answered. */
  ahead = 0
  /** When it is over unless it is renewed, on the clock of this process. */
  endAt = Infinity
  /** Until when its owner may believe what others tell: what was last answered, counted from before it was asked. */
  trustedUntil = -Infinity
  /** The etcd lease that its marker is on, as far as is known. */
  lease = 0
  /** Requests for it that are under way: nobody may end it meanwhile. */
  requests = 0
  /** Its marker is being removed. */
  removal: Promise<void> | undefined
  /** Its marker may be removed yet, by what was not answered: it must be put anew to be sure of it. */
  isUncertain = false
  timerSlot = -1
  timerBucket: TimerBucket | undefined
  readonly #wake: (claim: OwnClaim) => void

  constructor(key: string, id: string, replaces: string | undefined, wake: (claim: OwnClaim) => void) {
    this.key = key
    this.id = id
    this.replaces = replaces
    this.#wake = wake
  }

  wake(): void {
    this.#wake(this)
  }
}

/** Removes the markers of claims. `unknown`: that may yet happen. */
export type EndClaims = (claims: readonly OwnClaim[]) => Promise<'removed' | 'unknown'>

/** The claims this driver looks after. Those that nobody renews it ends: etcd's lease may live on for others. */
export class OwnClaims {
  readonly #environment: Environment
  readonly #timers: TimerQueue
  readonly #end: EndClaims | undefined
  readonly #byId = new Map<string, OwnClaim>()
  readonly #byKey = new Map<string, Set<OwnClaim>>()
  #unrenewed: OwnClaim[] = []

  /** `end` removes the markers of claims, and never rejects; undefined: others do so, as tests that move time. */
  constructor(environment: Environment, end: EndClaims | undefined) {
    this.#environment = environment
    this.#timers = new TimerQueue(environment)
    this.#end = end
  }

  find(id: string): OwnClaim | undefined {
    return this.#byId.get(id)
  }

  /** Those that wait for a key. */
  waitingFor(key: string): readonly OwnClaim[] {
    return Array.from(this.#byKey.get(key) ?? []).filter(({ state }) => state === 'waiting')
  }

  *[Symbol.iterator](): Iterator<OwnClaim> {
    yield* this.#byId.values()
  }

  /** Requests go out: what they are about does not end meanwhile. Resolves once nothing is being ended. */
  async begin(requests: readonly Request[]): Promise<void> {
    const removals: Promise<void>[] = []
    for (const request of requests) {
      const claim = this.#byId.get(idOf(request) ?? '')
      if (claim === undefined) continue
      claim.requests += 1
      this.#timers.set(claim, Infinity)
      if (claim.removal !== undefined) removals.push(claim.removal)
    }
    if (removals.length > 0) await Promise.all(removals)
  }

  /** Takes in what became of requests for which {@link begin} was called; undefined: nothing was sent. */
  note(
    requests: readonly Request[],
    statuses: readonly ClaimStatus[] | undefined,
    leaseOf: (request: Request) => number,
    sentAt: number,
  ): void {
    const now = this.#environment.now()
    for (const [index, request] of requests.entries()) {
      const id = idOf(request)
      if (id === undefined) continue
      const known = this.#byId.get(id)
      if (known !== undefined && known.requests > 0) known.requests -= 1
      const status = statuses?.[index]
      // One that may be made yet is ended all the same: etcd's lease would keep it alive with the others.
      if (status?.state === 'absent' && known?.state !== 'asked') {
        if (known !== undefined) this.#forget(known)
        continue
      }
      if (status?.state === 'held' || status?.state === 'waiting') {
        const claim = this.#put(request, id, status, now)
        claim.lease = leaseOf(request)
        const until = sentAt + status.ttlMs
        // A claim that is asked for again gets no more time by that.
        claim.trustedUntil = request.op === 'renew' || known === undefined ? until : Math.min(claim.trustedUntil, until)
      } else if (status?.state === 'unknown') this.#doubt(request, known, now, sentAt)
      const claim = this.#byId.get(id)
      if (claim?.requests === 0) this.#timers.set(claim, claim.endAt)
    }
  }

  /** News has said how one of ours stands. */
  onNotification(id: string, status: ClaimStatus): void {
    const claim = this.#byId.get(id)
    if (claim === undefined) return
    if (status.state === 'held') claim.state = 'held'
    else if (status.state === 'absent' && claim.requests === 0) this.#forget(claim)
  }

  clear(): void {
    this.#timers.clear()
    this.#byId.clear()
    this.#byKey.clear()
    this.#unrenewed = []
  }

  #put(request: Request, id: string, status: HeldStatus | WaitingStatus, now: number): OwnClaim {
    const claim = this.#byId.get(id) ?? this.#add(request, id)
    claim.state = status.state
    if (status.state === 'waiting') claim.ahead = status.ahead
    // Counted from the answer: its owner counts from before the sending, and must be done first.
    claim.endAt = this.#end === undefined ? Infinity : now + status.ttlMs
    if (request.op === 'renew') claim.isUncertain = false
    return claim
  }

  /** It is not known what came of a request: the claim may have got a whole ttl more, or have begun. */
  #doubt(request: Request, known: OwnClaim | undefined, now: number, sentAt: number): void {
    if (this.#end === undefined) return
    if (request.op === 'claim') {
      const claim = known ?? this.#add(request, request.claim.id)
      claim.endAt = now + request.claim.ttlMs
      if (known === undefined) claim.trustedUntil = sentAt + request.claim.ttlMs
    } else if (request.op === 'renew' && known !== undefined) known.endAt = Math.max(known.endAt, now + request.ttlMs)
  }

  #add(request: Request, id: string): OwnClaim {
    const replaces = request.op === 'claim' ? request.claim.replaces : undefined
    const claim = new OwnClaim(keyOf(request), id, replaces, (one) => this.#noteUnrenewed(one))
    this.#byId.set(id, claim)
    const beside = this.#byKey.get(claim.key)
    if (beside === undefined) this.#byKey.set(claim.key, new Set([claim]))
    else beside.add(claim)
    return claim
  }

  #forget(claim: OwnClaim): void {
    this.#timers.set(claim, Infinity)
    this.#byId.delete(claim.id)
    const beside = this.#byKey.get(claim.key)
    if (beside?.delete(claim) === true && beside.size === 0) this.#byKey.delete(claim.key)
  }

  // ---- those whose time is over

  #noteUnrenewed(claim: OwnClaim): void {
    this.#unrenewed.push(claim)
    // All that are woken in one turn are ended in one go.
    if (this.#unrenewed.length === 1) this.#environment.defer(() => this.#endUnrenewed())
  }

  #endUnrenewed(): void {
    const now = this.#environment.now()
    const over: OwnClaim[] = []
    for (const claim of this.#unrenewed.splice(0)) {
      if (this.#byId.get(claim.id) !== claim || claim.requests > 0) continue
      const endAt = this.#endOf(claim)
      if (endAt > now) this.#timers.set(claim, endAt)
      else over.push(claim)
    }
    if (over.length > 0) void this.#remove(over)
  }

  /** A conversion may have taken its place unheard: its owner then trusts the lease that it had. */
  #endOf(claim: OwnClaim): number {
    const replaced = claim.replaces === undefined ? undefined : this.#byId.get(claim.replaces)
    return Math.max(claim.endAt, replaced?.endAt ?? -Infinity)
  }

  async #remove(claims: readonly OwnClaim[]): Promise<void> {
    let removed: () => void = () => {}
    const removal = new Promise<void>((resolve) => (removed = resolve))
    for (const claim of claims) claim.removal = removal
    const outcome = (await this.#end?.(claims)) ?? 'removed'
    for (const claim of claims) {
      claim.removal = undefined
      if (outcome === 'removed') {
        if (claim.requests === 0 && this.#byId.get(claim.id) === claim) this.#forget(claim)
      } else {
        claim.isUncertain = true
        if (claim.requests === 0 && this.#byId.get(claim.id) === claim) {
          this.#timers.set(claim, this.#environment.now() + againMs)
        }
      }
    }
    removed()
  }
}

/** When to try once more to end what could not be ended. */
const againMs = 1000

/** The claim that a request is about; undefined: one that only its fence tells. */
export function idOf(request: Request): string | undefined {
  if (request.op === 'evict') return undefined
  return request.op === 'claim' ? request.claim.id : request.id
}
