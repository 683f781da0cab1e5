import { claimIdOf, keyOf } from '../../../core/contract/requests.ts'
import type { ClaimStatus, HeldStatus, Request, WaitingStatus } from '../../../core/contract/driver.ts'
import { TimerQueue, type TimerTask, type TimerBucket } from '../../../core/time/timer-queue.ts'
import type { Environment } from '../../../core/time/environment.ts'

/** A claim that this driver keeps and that is not over, as far as it knows. */
export class KeptClaim implements TimerTask {
  readonly key: string
  readonly id: string
  readonly replaces: string | undefined
  /** `asked`: the claim may have been made, or may be made yet. */
  state: 'held' | 'waiting' | 'asked' = 'asked'
  /** How many claims were ahead of it when it was last answered. */
  ahead = 0
  /** When the claim ends unless it is renewed, on the clock of this process. */
  endAt = Infinity
  /** Until when its owner may trust a notification: the last answer, counted from before its request was sent. */
  trustedUntil = -Infinity
  /** The etcd lease that its marker is on, as far as is known. */
  lease = 0
  /** Requests for the claim that are under way: it is not ended meanwhile. */
  requests = 0
  /** Its marker is being removed. */
  removal: Promise<void> | undefined
  /** An unanswered removal may yet remove its marker, which must therefore be put again. */
  isUncertain = false
  timerSlot = -1
  timerBucket: TimerBucket | undefined
  readonly #wake: (claim: KeptClaim) => void

  constructor(key: string, id: string, replaces: string | undefined, wake: (claim: KeptClaim) => void) {
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
export type EndClaims = (claims: readonly KeptClaim[]) => Promise<'removed' | 'unknown'>

/** The claims of this driver. It ends those that nobody renews: their etcd lease may live on for other claims. */
export class ClaimKeeper {
  readonly #environment: Environment
  readonly #timers: TimerQueue
  readonly #end: EndClaims | undefined
  readonly #byId = new Map<string, KeptClaim>()
  readonly #byKey = new Map<string, Set<KeptClaim>>()
  #unrenewed: KeptClaim[] = []

  /** `end` removes the markers of claims, and never rejects; undefined: a test that moves time does so. */
  constructor(environment: Environment, end: EndClaims | undefined) {
    this.#environment = environment
    this.#timers = new TimerQueue(environment)
    this.#end = end
  }

  find(id: string): KeptClaim | undefined {
    return this.#byId.get(id)
  }

  /** The claims that wait for a key. */
  waitingFor(key: string): readonly KeptClaim[] {
    return Array.from(this.#byKey.get(key) ?? []).filter(({ state }) => state === 'waiting')
  }

  *[Symbol.iterator](): Iterator<KeptClaim> {
    yield* this.#byId.values()
  }

  /** Requests are about to be sent: their claims are not ended meanwhile. Resolves once none of them is being ended. */
  async begin(requests: readonly Request[]): Promise<void> {
    const removals: Promise<void>[] = []
    for (const request of requests) {
      const claim = this.#byId.get(claimIdOf(request) ?? '')
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
      const id = claimIdOf(request)
      if (id === undefined) continue
      const known = this.#byId.get(id)
      if (known !== undefined && known.requests > 0) known.requests -= 1
      const status = statuses?.[index]
      // A claim that may be made yet is ended all the same: the shared etcd lease would keep it alive.
      if (status?.state === 'absent' && known?.state !== 'asked') {
        if (known !== undefined) this.#forget(known)
        continue
      }
      if (status?.state === 'held' || status?.state === 'waiting') {
        const claim = this.#put(request, id, status, now)
        claim.lease = leaseOf(request)
        const until = sentAt + status.ttlMs
        // A claim request that is sent again gives no more time.
        claim.trustedUntil = request.op === 'renew' || known === undefined ? until : Math.min(claim.trustedUntil, until)
      } else if (status?.state === 'unknown') this.#suspectAll(request, known, now, sentAt)
      const claim = this.#byId.get(id)
      if (claim?.requests === 0) this.#timers.set(claim, claim.endAt)
    }
  }

  /** A notification has brought the status of a claim. */
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

  #put(request: Request, id: string, status: HeldStatus | WaitingStatus, now: number): KeptClaim {
    const claim = this.#byId.get(id) ?? this.#add(request, id)
    claim.state = status.state
    if (status.state === 'waiting') claim.ahead = status.ahead
    // Counted from the answer: the owner counts from before the sending, and so stops first.
    claim.endAt = this.#end === undefined ? Infinity : now + status.ttlMs
    if (request.op === 'renew') claim.isUncertain = false
    return claim
  }

  /** The outcome of a request is unknown: the claim may have begun, or may have got a whole ttl more. */
  #suspectAll(request: Request, known: KeptClaim | undefined, now: number, sentAt: number): void {
    if (this.#end === undefined) return
    if (request.op === 'claim') {
      const claim = known ?? this.#add(request, request.claim.id)
      claim.endAt = now + request.claim.ttlMs
      if (known === undefined) claim.trustedUntil = sentAt + request.claim.ttlMs
    } else if (request.op === 'renew' && known !== undefined) known.endAt = Math.max(known.endAt, now + request.ttlMs)
  }

  #add(request: Request, id: string): KeptClaim {
    const replaces = request.op === 'claim' ? request.claim.replaces : undefined
    const claim = new KeptClaim(keyOf(request), id, replaces, (unrenewed) => this.#noteUnrenewed(unrenewed))
    this.#byId.set(id, claim)
    const beside = this.#byKey.get(claim.key)
    if (beside === undefined) this.#byKey.set(claim.key, new Set([claim]))
    else beside.add(claim)
    return claim
  }

  #forget(claim: KeptClaim): void {
    this.#timers.set(claim, Infinity)
    this.#byId.delete(claim.id)
    const beside = this.#byKey.get(claim.key)
    if (beside?.delete(claim) === true && beside.size === 0) this.#byKey.delete(claim.key)
  }

  // ---- claims that nobody renewed

  #noteUnrenewed(claim: KeptClaim): void {
    this.#unrenewed.push(claim)
    // All claims woken in one turn are ended together.
    if (this.#unrenewed.length === 1) this.#environment.defer(() => this.#endUnrenewed())
  }

  #endUnrenewed(): void {
    const now = this.#environment.now()
    const over: KeptClaim[] = []
    for (const claim of this.#unrenewed.splice(0)) {
      if (this.#byId.get(claim.id) !== claim || claim.requests > 0) continue
      const endAt = this.#endOf(claim)
      if (endAt > now) this.#timers.set(claim, endAt)
      else over.push(claim)
    }
    if (over.length > 0) void this.#remove(over)
  }

  /** A conversion may have replaced the claim without the owner knowing: the owner then trusts the lease of the replaced claim. */
  #endOf(claim: KeptClaim): number {
    const replaced = claim.replaces === undefined ? undefined : this.#byId.get(claim.replaces)
    return Math.max(claim.endAt, replaced?.endAt ?? -Infinity)
  }

  async #remove(claims: readonly KeptClaim[]): Promise<void> {
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

/** After what time a removal with an unknown outcome is tried again. */
const againMs = 1000
