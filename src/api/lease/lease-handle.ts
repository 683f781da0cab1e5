import type { Claim, Runner, ClaimStatus, Succession } from '../../core/contract/driver.ts'
import { positiveMs, type Duration } from '../../core/time/duration.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { scopeOf, type Scope } from '../../core/contract/scope.ts'
import type { ClaimObserver, ClaimRuntime, ObservedEffect } from '../../core/client/claim-runtime.ts'
import { AwaitedRenewals, Progress } from './awaited-renewals.ts'
import type { Acquisition, ClaimGrant } from '../client/acquisition.ts'
import type { Client } from '../client/client.ts'
import { convert } from './conversion.ts'
import { handOff } from './hand-off.ts'
import { askedToLeave, beingPassedOn, lost, notHeld, notRenewed } from './lease-errors.ts'
import type { Lease } from '../lease.ts'
import { renewalMs } from './lease-limits.ts'
import { LeaseEnd, LeaseExtras } from './lease-parts.ts'
import { checkHeartbeat, type AcquireTerms, type WaitOptions } from '../options.ts'
import { proofOf, type LeaseProof } from './proof.ts'
import { alreadyReleased, releaseResult, stillEntered, type ReleaseResult } from './release-result.ts'

/** The lease of one held claim: renews the claim by its runtime, and says when the lease can no longer be trusted. */
export class LeaseHandle implements Lease, ClaimObserver {
  readonly fence: number
  readonly claimRuntime: ClaimRuntime<Client>
  readonly terms: AcquireTerms
  readonly #heldSince: number
  #renewals = 0
  #ending: LeaseEnd | undefined
  #extras: LeaseExtras | undefined

  constructor(claimRuntime: ClaimRuntime<Client>, terms: AcquireTerms, grant: Pick<ClaimGrant, 'fence' | 'at'>) {
    const { client } = claimRuntime
    this.claimRuntime = claimRuntime
    this.terms = terms
    this.fence = grant.fence
    // A whole number: a fraction would be an object of its own.
    this.#heldSince = Math.ceil(grant.at)
    if (terms.progressMs !== undefined) this.#own.progress = new Progress(terms.progressMs, grant.at)
    claimRuntime.observer = this
    client.owners.add(this)
    if (terms.heartbeatMs !== Infinity) claimRuntime.renewElsewhere(terms.heartbeatMs)
  }

  /** The lease of a grant, told to listeners: acquired, takeover, stale. Must not throw: answers and timers call it. */
  static granted(acquisition: Acquisition, grant: ClaimGrant): LeaseHandle {
    const { client, key, request, attempts } = acquisition
    const { scope, terms } = request
    const { fence, after, at } = grant
    const lease = new LeaseHandle(acquisition.claimRuntime, terms, grant)
    client.order?.taken(lease)
    const waitMs = Math.round(at - acquisition.since)
    if (client.hasListener('acquired')) client.emitForLock('acquired', scope, { key, fence, waitMs, attempts })
    else client.counters.countAcquisition(waitMs)
    if (after !== undefined) {
      client.emitForLock('takeover', scope, { key, fence, after })
      if (wasStale(after, terms)) client.emitForLock('stale', scope, { key, after })
    }
    return lease
  }

  /** Ends this lease as converted. Gives the lease that takes its place. */
  succeededBy(acquisition: Acquisition, grant: ClaimGrant): LeaseHandle {
    const successor = LeaseHandle.granted(acquisition, grant)
    this.passOn('converted', successor)
    return successor
  }

  get client(): Client {
    return this.claimRuntime.client
  }

  /** The extras, to change them. */
  get #own(): LeaseExtras {
    return (this.#extras ??= new LeaseExtras())
  }

  get #heartbeatMs(): number {
    return this.#extras?.heartbeatMs ?? this.terms.heartbeatMs
  }

  /** How often the lease has been entered and not yet left; see `reentrant`. */
  get entries(): number {
    return this.#extras?.entries ?? 1
  }

  /** A conversion or a hand-off is under way: it ends this lease and not its lock. */
  get passing(): 'converted' | 'handed-off' | undefined {
    return this.#extras?.passing
  }
  set passing(how: 'converted' | 'handed-off' | undefined) {
    this.#own.passing = how
  }

  get scope(): Scope {
    return scopeOf(this.claimRuntime.state.claim)
  }

  get key(): string {
    return this.claimRuntime.state.claim.key
  }

  get runner(): Runner {
    return this.claimRuntime.state.claim.runner
  }

  get acquiredAt(): Date {
    return new Date(this.client.environment.wall() - this.heldMs)
  }

  get signal(): AbortSignal {
    const extras = this.#own
    if (extras.abort === undefined) {
      extras.abort = new AbortController()
      if (this.loss !== undefined) extras.abort.abort(this.loss)
    }
    this.#checkDeadline()
    return extras.abort.signal
  }

  get held(): boolean {
    this.#checkDeadline()
    return this.#ending === undefined
  }

  get remainingMs(): number {
    return this.held ? this.#trustedMs() : 0
  }

  get expiresAt(): Date {
    return new Date(this.client.environment.wall() + this.remainingMs)
  }

  get heldMs(): number {
    return Math.max(0, Math.floor(this.client.environment.now()) - this.#heldSince)
  }

  get heartbeating(): boolean {
    const { phase, heartbeatMs } = this.claimRuntime.state
    return phase === 'held' && heartbeatMs !== Infinity
  }

  get loss(): LeaseholdError | undefined {
    return this.#ending?.loss
  }

  async renew(ttl?: Duration): Promise<void> {
    const ttlMs = renewalMs(ttl, this.claimRuntime.state, this.client.driver.supports)
    this.refuseUnlessHeld()
    const { leaving, inFlight } = this.claimRuntime.state
    if (leaving !== undefined) throw askedToLeave(this, leaving)
    // A renewal that arrives after the first one of the process that resumes the lease must not shorten it.
    if (this.passing === 'handed-off') throw beingPassedOn(this, this.passing)
    const extras = this.#own
    extras.renewing ??= new AwaitedRenewals()
    const renewed = extras.renewing.next(inFlight)
    const changed = ttlMs !== this.claimRuntime.state.ttlMs
    this.claimRuntime.renew(ttlMs)
    if (changed && this.heartbeating) this.claimRuntime.renewElsewhere(this.#heartbeatMs)
    await renewed
  }

  startHeartbeat(every?: Duration): void {
    const { ttlMs } = this.claimRuntime.state
    if (every !== undefined) this.#own.heartbeatMs = checkHeartbeat(positiveMs(every, 'heartbeat'), ttlMs)
    else if (this.#heartbeatMs === Infinity) this.#own.heartbeatMs = ttlMs / 3
    this.refuseUnlessHeld()
    this.#forgetStall()
    this.claimRuntime.setHeartbeat(this.client.ownHeartbeatMs(this.#heartbeatMs, ttlMs))
    this.claimRuntime.renewElsewhere(this.#heartbeatMs)
  }

  stopHeartbeat(): void {
    this.#forgetStall()
    this.claimRuntime.setHeartbeat(Infinity)
    this.claimRuntime.stopElsewhere()
  }

  #forgetStall(): void {
    const progress = this.#extras?.progress
    if (progress !== undefined) progress.stalled = false
  }

  progress(): void {
    const progress = this.#extras?.progress
    progress?.made(this.client.environment.now())
    if (progress?.stalled === true && this.held) this.startHeartbeat()
  }

  /** Takes the lock once more for the same owner. The last of as many releases lets the lock go. */
  enter(): this {
    this.#own.entries += 1
    return this
  }

  release(): Promise<ReleaseResult> {
    if (this.#ending?.released !== undefined) return this.#ending.released.then(() => alreadyReleased)
    if (this.#ending?.passedOn !== undefined) return Promise.resolve({ released: false, reason: this.#ending.passedOn })
    if (this.#extras !== undefined && --this.#extras.entries > 0) return Promise.resolve(stillEntered)
    const now = this.claimRuntime.check()
    const ending = (this.#ending ??= new LeaseEnd())
    const released = new Promise<ReleaseResult>((resolve) => {
      ending.emitReleased = resolve
    })
    ending.released = released
    this.#leaveClient()
    this.claimRuntime.release(now)
    // The release of a lost lease only cleans up: there is nothing to wait for.
    if (ending.loss !== undefined) ending.emitReleased?.({ released: false, reason: 'lost' })
    return released
  }

  /** Releases the lease however often its owner has entered it. */
  releaseAll(): Promise<ReleaseResult> {
    if (this.#extras !== undefined) this.#extras.entries = 1
    return this.release()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  upgrade(options?: WaitOptions): Promise<LeaseHandle> {
    return convert(this, 'exclusive', options)
  }

  downgrade(): Promise<LeaseHandle> {
    return convert(this, 'shared')
  }

  handOff(): Promise<LeaseProof> {
    return handOff(this, this.claimRuntime.state.ttlMs)
  }

  toJSON(): LeaseProof {
    return proofOf(this.claimRuntime.state, this.fence)
  }

  /** The claim as it was sent. */
  get claim(): Claim {
    return this.claimRuntime.state.claim
  }

  /** How the lease is renewed now; the terms say how it was asked for. */
  get renewal(): { readonly ttlMs: number; readonly heartbeatMs: number } {
    const isRenewed = this.heartbeating || this.#extras?.progress?.stalled === true
    return { ttlMs: this.claimRuntime.state.ttlMs, heartbeatMs: isRenewed ? this.#heartbeatMs : Infinity }
  }

  /** The last lease that this one was converted to, or this one. */
  get latest(): LeaseHandle {
    return this.#ending?.successor?.latest ?? this
  }

  /**
   * When `maxHold` is over, by this client's clock. It counts from the first grant, however often the lease is converted,
   * and however long a conversion waits.
   */
  get holdUntil(): number | undefined {
    const { holdUntil, maxHoldMs } = this.terms
    return holdUntil ?? (maxHoldMs === undefined ? undefined : this.#heldSince + maxHoldMs)
  }

  /** A claim of this ttl is about to be sent that takes the place of this lease. Undefined: that claim was not granted. */
  converting(ttlMs: number | undefined): void {
    this.passing = ttlMs === undefined ? undefined : 'converted'
    this.claimRuntime.converting(ttlMs)
  }

  refuseUnlessHeld(): void {
    if (!this.held) throw this.#notHeld()
  }

  /** Ends this lease and not its lock: another lease has its place, or another process renews it. */
  passOn(how: 'converted' | 'handed-off', successor?: LeaseHandle): void {
    this.#ending ??= new LeaseEnd()
    this.#ending.passedOn = how
    this.#ending.successor = successor
    this.#leaveClient()
    if (this.claimRuntime.state.phase === 'held') this.client.emit('passed-on', this, { how, heldMs: this.heldMs })
    this.claimRuntime.passOn()
    this.#extras?.renewing?.failed(() => this.#notHeld())
  }

  #leaveClient(): void {
    this.client.owners.delete(this)
    this.claimRuntime.stopElsewhere()
  }

  /** Reads the clock: while the event loop was blocked, the lease may have expired. */
  #checkDeadline(): void {
    if (this.#ending === undefined) this.claimRuntime.check()
  }

  observe(effect: ObservedEffect): void {
    switch (effect.type) {
      case 'renewed':
        if (effect.own) this.#extras?.renewing?.answered()
        return this.#onRenewed()
      case 'answered-late':
        return this.#extras?.renewing?.answered(notRenewed(this))
      case 'renewal-failed':
        if (effect.own) this.#extras?.renewing?.answered(effect.error ?? notRenewed(this))
        return this.client.emit('renewal-failed', this, { error: effect.error, remainingMs: this.#trustedMs() })
      case 'jeopardy':
        return this.client.emit('jeopardy', this, {
          reason: this.#reasonOf(effect.reason),
          remainingMs: effect.leftMs,
        })
      case 'leaving':
        this.#extras?.renewing?.failed(() => askedToLeave(this, effect.reason))
        return this.client.emit('leaving', this, { reason: effect.reason, remainingMs: effect.leftMs })
      case 'lost':
        return this.#onLost(this.#reasonOf(effect.reason), effect.detail)
      case 'released':
        return this.#onReleased(effect.status, effect.at)
      default:
        return
    }
  }

  #onRenewed(): void {
    this.#renewals += 1
    const client = this.client
    const progress = this.#extras?.progress
    if (progress?.isWanting(client.environment.now()) === true && this.heartbeating) {
      this.stopHeartbeat()
      progress.stalled = true
    }
    if (!client.hasListener('renewed')) return client.counters.countRenewal()
    client.emit('renewed', this, { renewals: this.#renewals, remainingMs: this.#trustedMs() })
  }

  #reasonOf(reason: string): string {
    return this.#extras?.progress?.why(reason) ?? reason
  }

  #onLost(reason: string, detail: string | undefined): void {
    const loss = lost(this, reason, detail, this.claimRuntime.state.ttlMs)
    const ending = (this.#ending ??= new LeaseEnd())
    ending.loss = loss
    this.#leaveClient()
    this.#extras?.renewing?.failed(() => this.#notHeld())
    ending.emitReleased?.({ released: false, reason: 'lost' })
    this.client.emit('lost', this, { reason: loss.reason ?? reason, heldMs: this.heldMs })
    this.#extras?.abort?.abort(loss)
  }

  #onReleased(status: ClaimStatus, at: number): void {
    this.#extras?.renewing?.failed(() => this.#notHeld())
    this.#ending?.emitReleased?.(releaseResult(status))
    if (this.loss === undefined) this.client.emitReleased(this, Math.max(0, Math.floor(at) - this.#heldSince))
  }

  #trustedMs(): number {
    return Math.max(0, Math.floor(this.claimRuntime.state.deadline - this.client.environment.now()))
  }

  #notHeld(): LeaseholdError {
    return notHeld(this, this.#ending?.passedOn ?? (this.loss === undefined ? 'released' : 'lost'), this.loss)
  }
}

/** The handle behind a lease of this package. Throws for a test double. */
export function handleOf(lease: Lease): LeaseHandle {
  if (lease instanceof LeaseHandle) return lease
  throw new LeaseholdError(
    'INVALID',
    'This lease was not granted by this copy of leasehold. Pass the lease of connect or createLocks, not a double.',
  )
}

/**
 * Whether the last holder had fallen silent. A holder that was evicted may have been alive. If the store does not say what evicted it,
 * it counts as stale if this claim takes over stale holders.
 */
function wasStale({ how, cause }: Succession, { evict }: AcquireTerms): boolean {
  if (how !== 'evicted') return how === 'expired' || how === 'died'
  return cause === undefined ? evict === 'stale' : cause === 'stale'
}
