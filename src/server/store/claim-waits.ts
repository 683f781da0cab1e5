import type { AbsentStatus, Claim, ClaimStatus, HeldStatus, Request } from '../../core/contract/driver.ts'
import { claimName } from '../../core/contract/requests.ts'
import { worthRetrying } from '../../core/errors.ts'
import { adaptivePolling, pauseMs } from '../../core/time/backoff.ts'
import type { Environment } from '../../core/time/environment.ts'
import { tooMuch } from '../contract/http-error.ts'
import type { ServerLimits } from '../contract/limits.ts'
import type { ServerMetrics } from './metrics.ts'
import type { StoreFacade } from './store-facade.ts'

/** A claim that a call waits for. */
export interface AwaitedClaim {
  readonly claim: Claim
  /** 0: the claim is not to wait. */
  readonly waitMs: number
  /** True: the caller chose the id and may send it again, here or to another server over the same store. */
  readonly isGivenId: boolean
  /** Aborts when the caller has gone, or its token is good no more. */
  readonly signal: AbortSignal
  /** Sends a request of this caller to the store. */
  readonly submit: (request: Request) => Promise<ClaimStatus>
}

/** Why a call stops waiting. `gone`: its signal aborted. `interrupted`: the server closes. */
type StopReason = 'timed-out' | 'gone' | 'interrupted' | 'cancelled'

/** How the wait for a claim ended. */
export type WaitOutcome =
  /** `sentAt`: when the request was sent that was answered so, by our monotonic clock. */
  | { readonly how: 'granted'; readonly status: HeldStatus; readonly sentAt: number }
  | { readonly how: 'refused'; readonly status: AbsentStatus }
  /** The store failed. Whether the claim is there is not known. */
  | { readonly how: 'failed'; readonly error: unknown }
  | { readonly how: StopReason }

/** The shortest pause before the store is asked again. */
const pauseMinMs = 5

/** The calls that wait for a lock: each keeps its claim alive, and takes it back when its caller no longer waits. */
export class ClaimWaits {
  readonly #store: StoreFacade
  readonly #environment: Environment
  readonly #metrics: ServerMetrics
  readonly #limits: ServerLimits
  readonly #waits = new Set<ClaimWait>()
  /** The same by the name of the claim: several calls may wait for one. */
  readonly #byName = new Map<string, Set<ClaimWait>>()
  #isClosed = false

  constructor(store: StoreFacade, environment: Environment, metrics: ServerMetrics, limits: ServerLimits) {
    this.#store = store
    this.#environment = environment
    this.#metrics = metrics
    this.#limits = limits
  }

  /** Follows a claim until it is granted or the call waits no longer. Rejects with what `submit` refuses. */
  async follow(awaited: AwaitedClaim): Promise<WaitOutcome> {
    const { waitsMax } = this.#limits
    if (awaited.waitMs > 0 && this.#waits.size >= waitsMax) throw tooMuch(`${waitsMax} calls wait already.`, 1000)
    const wait = new ClaimWait(awaited, this.#store, this.#environment, this.#metrics)
    this.#add(wait)
    if (this.#isClosed) wait.stop('interrupted')
    const onGone = (): void => wait.stop('gone')
    awaited.signal.addEventListener('abort', onGone, { once: true })
    if (awaited.signal.aborted) onGone()
    try {
      return await wait.follow()
    } finally {
      awaited.signal.removeEventListener('abort', onGone)
      this.#remove(wait)
      wait.end()
    }
  }

  #add(wait: ClaimWait): void {
    this.#waits.add(wait)
    const same = this.#byName.get(wait.name)
    if (same === undefined) this.#byName.set(wait.name, new Set([wait]))
    else same.add(wait)
  }

  #remove(wait: ClaimWait): void {
    this.#waits.delete(wait)
    const same = this.#byName.get(wait.name)
    same?.delete(wait)
    if (same?.size === 0) this.#byName.delete(wait.name)
  }

  /** The claim has been released on purpose: those who wait for it give up. */
  cancel(claim: Pick<Claim, 'key' | 'id'>): void {
    for (const wait of this.#byName.get(claimName(claim)) ?? []) wait.stop('cancelled')
  }

  /** Sends every caller away, also those to come: they ask the server that takes the place of this one. */
  close(): void {
    this.#isClosed = true
    for (const wait of this.#waits) wait.stop('interrupted')
  }
}

/** One call that waits. */
class ClaimWait {
  readonly name: string
  readonly #awaited: AwaitedClaim
  readonly #store: StoreFacade
  readonly #environment: Environment
  readonly #metrics: ServerMetrics
  readonly #watch: Disposable
  readonly #endsAt: number
  /** How often in a row the store has been asked without a change. */
  #polls = 0
  #isParked = false
  #stopped: StopReason | undefined
  #woken = false
  #resume: (() => void) | undefined

  constructor(awaited: AwaitedClaim, store: StoreFacade, environment: Environment, metrics: ServerMetrics) {
    this.name = claimName(awaited.claim)
    this.#awaited = awaited
    this.#store = store
    this.#environment = environment
    this.#metrics = metrics
    // Before the claim is sent: a notification may arrive before the answer.
    this.#watch = store.watch(awaited.claim, () => this.#wake())
    this.#endsAt = environment.now() + awaited.waitMs
  }

  stop(why: StopReason): void {
    this.#stopped ??= why
    // Counted among the calls again before the server that closes asks whether any is under way.
    this.#park(false)
    this.#resume?.()
  }

  /** Repeatable. */
  end(): void {
    this.#watch[Symbol.dispose]()
    this.#park(false)
  }

  /** The claim may have changed: ask the store. */
  #wake(): void {
    this.#woken = true
    this.#resume?.()
  }

  /** A call that waits takes no place among those under way. */
  #park(isParked: boolean): void {
    if (isParked === this.#isParked) return
    this.#isParked = isParked
    this.#metrics.callsUnderWay += isParked ? -1 : 1
    this.#metrics.waitsUnderWay += isParked ? 1 : -1
  }

  async follow(): Promise<WaitOutcome> {
    const { claim, isGivenId, submit } = this.#awaited
    const asClaim = { op: 'claim', claim } as const
    // Renewed before it is handed over, too: a claim granted while it waited has the rest of its ttl only.
    const asRenewal = { op: 'renew', key: claim.key, id: claim.id, ttlMs: claim.ttlMs } as const
    let request: Request = asClaim
    let isQueued = false
    for (;;) {
      this.#woken = false
      const sentAt = this.#environment.now()
      const status = await submit(request)
      // A caller whose token was revoked meanwhile is told of no grant.
      if (status.state === 'held' && this.#stopped !== 'gone') return { how: 'granted', status, sentAt }
      if (status.state === 'absent' && !(isQueued && mayQueueAnew(status))) return { how: 'refused', status }
      if (status.state === 'unknown' && !(isQueued && worthRetrying(status.error))) return this.#failed(status.error)
      isQueued = true
      // A claim of an earlier call may notify another server: a renewal brings its notifications here.
      const mayBeElsewhere = isGivenId && request === asClaim && status.state === 'waiting'
      if (!mayBeElsewhere) await this.#pause(this.#pauseMsAfter(status))
      const why = this.#stopped ?? (this.#environment.now() >= this.#endsAt ? 'timed-out' : undefined)
      if (why !== undefined) {
        const left = await this.#leave(why)
        if (left !== undefined) return left
        // Granted at the last moment.
        request = asRenewal
      } else request = status.state === 'absent' ? asClaim : asRenewal
    }
  }

  /** An id that nobody else knows is released: the store may have carried out what it failed to answer. */
  async #failed(error: unknown): Promise<WaitOutcome> {
    const { claim, isGivenId, submit } = this.#awaited
    if (!isGivenId) await submit({ op: 'release', key: claim.key, id: claim.id })
    return { how: 'failed', error }
  }

  #pauseMsAfter(status: ClaimStatus): number {
    const { supports } = this.#store
    this.#polls += 1
    const backoff = supports.pollingDefault ?? adaptivePolling
    const pollMs = pauseMs(backoff, this.#polls, this.#environment.random())
    if (status.state !== 'waiting') return pollMs
    // Thrice a ttl, so that one lost renewal costs no place in the queue.
    return Math.max(
      pauseMinMs,
      Math.min(status.againMs, this.#awaited.claim.ttlMs / 3, supports.push ? Infinity : pollMs),
    )
  }

  /** Resolves after so long, when the wait is over, or when the claim may have changed. */
  #pause(delayMs: number): Promise<void> {
    const leftMs = this.#endsAt - this.#environment.now()
    if (this.#woken || this.#stopped !== undefined || leftMs <= 0) return Promise.resolve()
    this.#park(true)
    return new Promise((resolve) => {
      const timer = this.#environment.timer(Math.min(delayMs, leftMs), () => this.#resume?.())
      this.#resume = () => {
        this.#resume = undefined
        timer.cancel()
        resolve()
      }
    })
  }

  /**
   * Takes the claim back. Undefined: it was granted before that, and the caller is still there.
   *
   * An id that we made is known to nobody else: it is released. With an id of its own the caller may meanwhile have been granted
   * the lock by another server: such a claim is only taken out of the queue. If it is held, it waits for its caller to ask
   * again, and ends with its ttl.
   */
  async #leave(why: StopReason): Promise<WaitOutcome | undefined> {
    const { claim, isGivenId, submit } = this.#awaited
    const { key, id } = claim
    this.#watch[Symbol.dispose]()
    // The same caller waits here by another call; or it will ask another server, and is to keep its place until then.
    if (this.#store.isWatched(claim) || (why === 'interrupted' && isGivenId)) return { how: why }
    if (why !== 'timed-out' && !isGivenId) {
      await submit({ op: 'release', key, id })
      return { how: why }
    }
    const status = await submit({ op: 'withdraw', key, id })
    if (status.state === 'unknown') return { how: 'failed', error: status.error }
    return status.state === 'held' && why === 'timed-out' ? undefined : { how: why }
  }
}

/** The claim left the queue against its caller's will: it was not renewed in time, or the store has forgotten it. */
function mayQueueAnew({ reason }: AbsentStatus): boolean {
  return reason === 'expired' || reason === 'unknown' || reason === 'released'
}
