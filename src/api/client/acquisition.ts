import { adaptivePolling } from '../../core/time/backoff.ts'
import type { AbsentReason, Claim, Mode, Runner } from '../../core/contract/driver.ts'
import { jitterOf, type RenewalPolicy } from '../../core/client/claim-step.ts'
import { claimant } from './runner.ts'
import { storeKey, type Scope } from '../../core/contract/scope.ts'
import type { ClaimRuntime } from '../../core/client/claim-runtime.ts'
import { Waiter, type Grant, type Miss } from './waiter.ts'
import type { Client } from './client.ts'
import { LeaseHandle } from '../lease/lease-handle.ts'
import { unsupported, type Terms } from '../options.ts'

/** How a scope is shared. */
export interface Sharing {
  readonly mode: Mode
  readonly limit?: number
  /** The id of the held claim whose place is to be taken. */
  readonly replaces?: string
}

export const exclusively: Sharing = { mode: 'exclusive' }

/** An acquisition that ended without a lease, and what it took. */
export interface Missed {
  readonly miss: Miss
  readonly attempts: number
  readonly waitedMs: number
}

/** A lease, or why there is none. */
export type Acquired = { readonly lease: LeaseHandle } | Missed

/** Claims a scope and follows the claim until it is held or given up. Rejects only if nothing was asked. */
export function attempt(
  client: Client,
  scope: Scope,
  sharing: Sharing,
  terms: Terms,
  waitMs: number,
): Promise<Acquired> {
  return new Promise((resolve) => pursue(client, scope, sharing, terms, waitMs, (lease) => resolve({ lease }), resolve))
}

/** Like {@link attempt} for callers with a promise of their own: calls one of `acquired` and `missed`, once and later. */
export function pursue(
  client: Client,
  scope: Scope,
  sharing: Sharing,
  terms: Terms,
  waitMs: number,
  acquired: (lease: LeaseHandle) => void,
  missed: (missed: Missed) => void,
): void {
  // Whoever asks for one lock after another may have been overtaken by the client's end.
  client.refuseIfClosed()
  refuseUnsupported(client, scope, sharing)
  new Acquisition(client, scope, sharing, terms, waitMs, acquired, missed).start()
}

/** Throws UNSUPPORTED for what the store cannot lock, or not like this. */
export function refuseUnsupported({ driver }: Client, scope: Scope, sharing: Sharing): void {
  const { supports } = driver
  if (scope.range !== undefined && !supports.range) throw unsupported('byte ranges')
  if (sharing.mode === 'shared' && !supports.shared) throw unsupported('shared locks')
  if (sharing.limit !== undefined && !supports.limit) throw unsupported('semaphores')
}

/** One caller's way to a lease on one scope. */
class Acquisition extends Waiter {
  protected readonly terms: RenewalPolicy
  readonly #client: Client
  readonly #scope: Scope
  readonly #sharing: Sharing
  readonly #terms: Terms
  readonly #mayQueue: boolean
  readonly #acquired: (lease: LeaseHandle) => void
  readonly #missed: (missed: Missed) => void
  readonly #key: string
  readonly #runner: Runner
  #contended = false

  constructor(
    client: Client,
    scope: Scope,
    sharing: Sharing,
    terms: Terms,
    waitMs: number,
    acquired: (lease: LeaseHandle) => void,
    missed: (missed: Missed) => void,
  ) {
    super(client.runtime, waitMs === terms.waitPolicy.waitMs ? terms.waitPolicy : { ...terms.waitPolicy, waitMs })
    const { driver, environment } = client
    this.#client = client
    this.#scope = scope
    this.#sharing = sharing
    this.#terms = terms
    // The only attempt that `retry` allows asks once and goes.
    this.#mayQueue = waitMs > 0 && driver.supports.queue && terms.waitPolicy.queueMs !== 0
    this.#acquired = acquired
    this.#missed = missed
    this.#key = storeKey(client.namespace, scope.key)
    // Here, where it may throw: nobody waits yet.
    this.#runner = claimant(client.runner, terms.owner, terms.metadata)
    this.terms = {
      heartbeatMs: client.ownHeartbeatMs(terms.heartbeatMs, terms.ttlMs),
      polling: driver.supports.push ? undefined : (driver.supports.pollingDefault ?? adaptivePolling),
      jitter: jitterOf(environment.random()),
      hold: terms.holdUntil === undefined ? undefined : { until: terms.holdUntil, ttlMinMs: driver.supports.ttlMinMs },
    }
  }

  protected newClaim(): Claim {
    const { priority, evict, staleMs, ttlMs, graceMs, maxHoldMs, detached } = this.#terms
    const { mode, limit, replaces } = this.#sharing
    const { range } = this.#scope
    const claim: Claim = {
      id: this.#client.environment.id(),
      key: this.#key,
      mode,
      priority,
      wait: this.#mayQueue,
      ttlMs,
      graceMs,
      runner: this.#runner,
    }
    // Most want none of these, and a claim is kept for as long as it is held.
    const wantsNone = limit === undefined && range === undefined && evict === undefined && maxHoldMs === undefined
    const staysAlone = replaces === undefined && detached === undefined
    if (wantsNone && staysAlone) return claim
    return { ...claim, limit, range, evict, staleMs, maxHoldMs, replaces, detached }
  }

  /** What a conversion was to take the place of does not come back. */
  protected override worthAsking(reason: AbsentReason): boolean {
    if (this.#terms.endsWhenEvicted === true && reason === 'evicted') return false
    const asksAgain = this.#sharing.replaces === undefined || reason === 'refused' || reason === 'expired'
    return super.worthAsking(reason) && asksAgain
  }

  /** Granted unheard, it is all its owner has: to release it would let go of more than a place. */
  protected override get withdraws(): boolean {
    return this.#sharing.replaces !== undefined
  }

  /** For whom it waits. */
  get owner(): string | undefined {
    return this.#terms.owner
  }

  get key(): string {
    return this.#key
  }

  protected queued(ahead: number): void {
    this.#contend()
    this.#client.deadlocks?.watch(this)
    this.#client.emitForLock('waiting', this.#scope, { key: this.#key, ahead })
  }

  protected granted(claimRuntime: ClaimRuntime, { fence, after, at }: Grant): void {
    const client = this.#client
    const scope = this.#scope
    const key = this.#key
    client.deadlocks?.unwatch(this)
    const lease = new LeaseHandle(client, claimRuntime, this.#terms, fence, at)
    client.order?.taken(lease)
    const waitMs = Math.round(at - this.since)
    if (client.hasListener('acquired'))
      client.emitForLock('acquired', scope, { key, fence, waitMs, attempts: this.attempts })
    else client.counters.countAcquisition(waitMs)
    if (after !== undefined) {
      client.emitForLock('takeover', scope, { key, fence, after })
      if (after.how !== 'max-hold') client.emitForLock('stale', scope, { key, after })
    }
    this.#acquired(lease)
  }

  protected missed(miss: Miss): void {
    this.#client.deadlocks?.unwatch(this)
    if (miss.type === 'refused' && miss.status.reason === 'refused') this.#contend()
    this.#missed({ miss, attempts: this.attempts, waitedMs: Math.round(this.#client.environment.now() - this.since) })
  }

  /** Counted once an acquisition, however often it had to ask. */
  #contend(): void {
    if (!this.#contended) this.#client.emitForLock('contention', this.#scope, { key: this.#key })
    this.#contended = true
  }
}
