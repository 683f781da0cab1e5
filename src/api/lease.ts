import type { Runner, Standing } from '../core/driver.ts'
import { positiveMs, type Duration } from '../core/duration.ts'
import { LeaseholdError } from '../core/errors.ts'
import type { Effect } from '../core/life.ts'
import type { RosterMember } from '../core/roster.ts'
import { describeScope, type Scope } from '../core/scope.ts'
import type { Observer, Tenure } from '../core/tenure.ts'
import type { Client } from './client.ts'
import { checkHeartbeat, type Terms } from './options.ts'

/** How letting go went. Never an error: a lease that cannot be given back ends by itself. */
export interface ReleaseResult {
  readonly released: boolean
  /** If not: `already-released`, `entered-again`, `lost`, `unavailable`, or the store's word (`expired`, `evicted`, `max-hold` …). */
  readonly reason?: string
}

/** What passes a lease to another process or proves it to a server. The id in it is a secret. */
export interface LeaseProof {
  readonly version: 1
  readonly key: string
  readonly id: string
  readonly fence: number
  readonly ttlMs: number
  readonly range?: { readonly start: number; readonly end: number }
}

const alreadyReleased: ReleaseResult = { released: false, reason: 'already-released' }
const stillEntered: ReleaseResult = { released: false, reason: 'entered-again' }

/**
 * A lock in hand. Pass `fence` with every write, stop when `signal` fires, and release it: `await using` does.
 */
export class Lease implements AsyncDisposable, Observer, RosterMember {
  readonly scope: Scope
  /** Grows with every grant of this lock: a resource that has seen a higher one must refuse this one. */
  readonly fence: number
  readonly runner: Runner
  /** @internal */
  rosterSlot = -1
  readonly #client: Client
  readonly #tenure: Tenure
  readonly #terms: Terms
  readonly #heldSince: number
  #heartbeatMs: number
  #abort: AbortController | undefined
  #loss: LeaseholdError | undefined
  #renewals = 0
  /** How often the lease has been entered and not yet left; see `reentrant`. */
  #entries = 1
  #lastProgress: number
  #released: Promise<ReleaseResult> | undefined
  #tellReleased: ((result: ReleaseResult) => void) | undefined
  #renewing: { readonly resolve: () => void; readonly reject: (error: unknown) => void }[] | undefined

  /** @internal */
  constructor(client: Client, tenure: Tenure, scope: Scope, terms: Terms, fence: number, heldSince: number) {
    this.#client = client
    this.#tenure = tenure
    this.#terms = terms
    this.scope = scope
    this.fence = fence
    this.runner = tenure.life.claim.runner
    this.#heldSince = heldSince
    this.#lastProgress = heldSince
    this.#heartbeatMs = terms.heartbeatMs
    tenure.observer = this
    client.leases.add(this)
    if (terms.heartbeatMs !== Infinity) this.#beatElsewhere()
  }

  /** The key the store knows this lock by. */
  get key(): string {
    return this.#tenure.life.claim.key
  }

  /** When the lock was granted, as far as this process can tell. */
  get acquiredAt(): Date {
    return new Date(this.#client.environment.wall() - this.heldMs)
  }

  /** Aborts when the lease is lost, with a LOST error that says why. Not on release. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.#loss !== undefined) this.#abort.abort(this.#loss)
    }
    this.#look()
    return this.#abort.signal
  }

  /** Whether the lease can still be trusted, by the clock now. */
  get held(): boolean {
    this.#look()
    return this.#released === undefined && this.#loss === undefined
  }

  /** How long the lease can still be trusted if it is not renewed. */
  get remainingMs(): number {
    return this.held ? Math.max(0, this.#tenure.life.deadline - this.#client.environment.now()) : 0
  }

  /** When the lease can no longer be trusted if it is not renewed. */
  get expiresAt(): Date {
    return new Date(this.#client.environment.wall() + this.remainingMs)
  }

  /** How long the lock has been held. */
  get heldMs(): number {
    return this.#client.environment.now() - this.#heldSince
  }

  /** Whether renewals go out by themselves. */
  get heartbeating(): boolean {
    const { phase, heartbeatMs } = this.#tenure.life
    return phase === 'held' && heartbeatMs !== Infinity
  }

  /** The error this lease was lost with, if it was. */
  get loss(): LeaseholdError | undefined {
    return this.#loss
  }

  /** Sets the end of the lease to now plus `ttl`, which stays in force. Rejects with NOT_HELD once it is over. */
  async renew(ttl?: Duration): Promise<void> {
    const ttlMs = ttl === undefined ? this.#tenure.life.ttlMs : positiveMs(ttl, 'ttl')
    if (!this.held) throw this.#notHeld()
    await new Promise<void>((resolve, reject) => {
      this.#renewing ??= []
      this.#renewing.push({ resolve, reject })
      const changed = ttlMs !== this.#tenure.life.ttlMs
      this.#tenure.renew(ttlMs)
      if (changed && this.heartbeating) this.#beatElsewhere()
    })
  }

  /** Renews by itself from now on. Without a duration: at the rate it was acquired with, else a third of the ttl. */
  startHeartbeat(every?: Duration): void {
    const { ttlMs } = this.#tenure.life
    if (every !== undefined) this.#heartbeatMs = checkHeartbeat(positiveMs(every, 'heartbeat'), ttlMs)
    else if (this.#heartbeatMs === Infinity) this.#heartbeatMs = ttlMs / 3
    if (!this.held) throw this.#notHeld()
    this.#tenure.setHeartbeat(this.#client.ownHeartbeatMs(this.#heartbeatMs, ttlMs))
    this.#beatElsewhere()
  }

  /** Renews no more by itself. The lease runs out unless `renew` is called. */
  stopHeartbeat(): void {
    this.#tenure.setHeartbeat(Infinity)
    this.#client.office.thread?.unwatch(this.#tenure.life.claim.id)
  }

  /** Says that the work is getting on; with the `progress` option the lease is renewed only while this is called. */
  progress(): void {
    this.#lastProgress = this.#client.environment.now()
    if (this.#terms.progressMs !== undefined && this.held && !this.heartbeating) this.startHeartbeat()
  }

  /** Takes the lock once more for the same party. It is let go with the last of as many releases. @internal */
  enter(): this {
    this.#entries += 1
    return this
  }

  /** Lets the lock go. Quiet when there is nothing to let go: the result says so. */
  release(): Promise<ReleaseResult> {
    if (this.#released !== undefined) return this.#released.then(() => alreadyReleased)
    this.#entries -= 1
    if (this.#entries > 0) return Promise.resolve(stillEntered)
    this.#look()
    this.#released = new Promise((resolve) => {
      this.#tellReleased = resolve
    })
    this.#client.leases.delete(this)
    this.#client.office.thread?.unwatch(this.#tenure.life.claim.id)
    this.#tenure.release()
    // A lost lease is only tidied up after: there is nothing to wait for.
    if (this.#loss !== undefined) this.#tellReleased?.({ released: false, reason: 'lost' })
    return this.#released
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  toJSON(): LeaseProof {
    const { claim, ttlMs } = this.#tenure.life
    const { key, id, range } = claim
    return { version: 1, key, id, fence: this.fence, ttlMs, ...(range !== undefined && { range }) }
  }

  /** Looks at the clock: a blocked event loop must not make a lease look longer than it is. */
  #look(): void {
    if (this.#loss === undefined && this.#released === undefined) this.#tenure.check()
  }

  /** @internal */
  observe(effect: Exclude<Effect, { type: 'send' }>): void {
    switch (effect.type) {
      case 'renewed':
        return this.#onRenewed()
      case 'renewal-failed':
        this.#settleRenewals(() => effect.error)
        return this.#client.tell('renewal-failed', this, { error: effect.error, remainingMs: this.#trustedMs() })
      case 'jeopardy':
        return this.#client.tell('jeopardy', this, { reason: effect.reason, remainingMs: effect.leftMs })
      case 'leaving':
        this.#settleRenewals(
          () => new LeaseholdError('NOT_HELD', `${this.#name()} was asked to leave: ${effect.reason}.`),
        )
        return this.#client.tell('leaving', this, { reason: effect.reason, remainingMs: effect.leftMs })
      case 'lost':
        return this.#onLost(effect.reason, effect.detail)
      case 'released':
        return this.#onReleased(effect.standing)
      default:
        return
    }
  }

  /** Lets the heartbeat thread, if there is one, renew this lease. */
  #beatElsewhere(): void {
    const { thread } = this.#client.office
    if (thread === undefined) return
    const { claim, ttlMs, sentAt } = this.#tenure.life
    thread.watch({ key: claim.key, id: claim.id, ttlMs, heartbeatMs: this.#heartbeatMs, sentAt })
  }

  #onRenewed(): void {
    this.#renewals += 1
    this.#settleRenewals()
    const { progressMs } = this.#terms
    if (progressMs !== undefined && this.#client.environment.now() - this.#lastProgress > progressMs)
      this.stopHeartbeat()
    this.#client.tell('renewed', this, { renewals: this.#renewals, remainingMs: this.#trustedMs() })
  }

  #onLost(reason: string, detail: string | undefined): void {
    const why = detail === undefined ? reason : `${reason}: ${detail}`
    const after = Math.round(this.#tenure.life.ttlMs)
    const whats: Readonly<Record<string, string>> = {
      expired: `${this.#name()} was not renewed for ${after} ms`,
      'max-hold': `${this.#name()} was held for as long as it may be`,
    }
    const what = whats[reason] ?? `${this.#name()} was taken away (${why})`
    this.#loss = new LeaseholdError('LOST', `${what}. Stop writing; fence ${this.fence} may be superseded.`, {
      scope: describeScope(this.scope),
      key: this.key,
      fence: this.fence,
      reason: why,
    })
    this.#client.leases.delete(this)
    this.#client.office.thread?.unwatch(this.#tenure.life.claim.id)
    this.#settleRenewals(() => this.#notHeld())
    this.#tellReleased?.({ released: false, reason: 'lost' })
    this.#client.tell('lost', this, { reason: why, heldMs: this.heldMs })
    this.#abort?.abort(this.#loss)
  }

  #onReleased(standing: Standing): void {
    const { heldMs } = this
    const clean = standing.state === 'absent' && standing.reason === 'released'
    const reason =
      standing.state === 'unknown' ? 'unavailable' : standing.state === 'absent' ? standing.reason : undefined
    this.#settleRenewals(() => this.#notHeld())
    this.#tellReleased?.(clean ? { released: true } : { released: false, ...(reason !== undefined && { reason }) })
    if (this.#loss === undefined) this.#client.tell('released', this, { heldMs })
  }

  /** Answers those who await a renewal. The error is made only if somebody does. */
  #settleRenewals(failure?: () => unknown): void {
    const renewing = this.#renewing
    this.#renewing = undefined
    for (const { resolve, reject } of renewing ?? []) {
      if (failure === undefined) resolve()
      else reject(failure())
    }
  }

  #trustedMs(): number {
    return Math.max(0, this.#tenure.life.deadline - this.#client.environment.now())
  }

  #notHeld(): LeaseholdError {
    const how = this.#loss === undefined ? 'has been released' : 'was lost'
    return new LeaseholdError('NOT_HELD', `${this.#name()} ${how}. Acquire it again before going on.`, {
      scope: describeScope(this.scope),
      key: this.key,
      fence: this.fence,
      ...(this.#loss !== undefined && { cause: this.#loss }),
    })
  }

  #name(): string {
    return JSON.stringify(describeScope(this.scope))
  }
}
