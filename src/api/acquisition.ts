import { adaptivePolling } from '../core/backoff.ts'
import type { Claim, Mode } from '../core/driver.ts'
import { LeaseholdError, messageOf, type ErrorCode, type ErrorDetails } from '../core/errors.ts'
import type { LifeTerms } from '../core/life.ts'
import { claimant } from '../core/runner.ts'
import { describeScope, storeKey, type Scope } from '../core/scope.ts'
import type { Tenure } from '../core/tenure.ts'
import { Waiter, type Grant, type Miss } from '../core/waiter.ts'
import type { Client } from './client.ts'
import { holdersOf } from './inspection.ts'
import { Lease } from './lease.ts'
import { unsupported, type Terms } from './options.ts'

/** How a scope is shared. */
export interface Sharing {
  readonly mode: Mode
  readonly limit?: number
}

export const exclusively: Sharing = { mode: 'exclusive' }

/** An acquisition that ended without a lease, and what it took. */
export interface Missed {
  readonly miss: Miss
  readonly attempts: number
  readonly waitedMs: number
}

/** A lease, or why there is none. */
export type Acquired = { readonly lease: Lease } | Missed

/** Claims a scope and follows the claim until it is held or given up. Resolves in every case. */
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
  acquired: (lease: Lease) => void,
  missed: (missed: Missed) => void,
): void {
  const { supports } = client.driver
  if (scope.range !== undefined && !supports.range) throw unsupported('byte ranges')
  if (sharing.mode === 'shared' && !supports.shared) throw unsupported('shared locks')
  if (sharing.limit !== undefined && !supports.limit) throw unsupported('semaphores')
  new Acquisition(client, scope, sharing, terms, waitMs, acquired, missed).start()
}

/** One caller's way to a lease on one scope. */
class Acquisition extends Waiter {
  protected readonly terms: LifeTerms
  readonly #client: Client
  readonly #scope: Scope
  readonly #sharing: Sharing
  readonly #terms: Terms
  readonly #mayQueue: boolean
  readonly #acquired: (lease: Lease) => void
  readonly #missed: (missed: Missed) => void
  readonly #key: string
  #contended = false

  constructor(
    client: Client,
    scope: Scope,
    sharing: Sharing,
    terms: Terms,
    waitMs: number,
    acquired: (lease: Lease) => void,
    missed: (missed: Missed) => void,
  ) {
    super(client.office, waitMs === terms.patience.waitMs ? terms.patience : { ...terms.patience, waitMs })
    const { driver, environment } = client
    this.#client = client
    this.#scope = scope
    this.#sharing = sharing
    this.#terms = terms
    this.#mayQueue = waitMs > 0 && driver.supports.queue
    this.#acquired = acquired
    this.#missed = missed
    this.#key = storeKey(client.namespace, scope.key)
    this.terms = {
      heartbeatMs: client.ownHeartbeatMs(terms.heartbeatMs, terms.ttlMs),
      polling: driver.supports.push ? undefined : adaptivePolling,
      spread: environment.random(),
    }
  }

  protected newClaim(): Claim {
    const terms = this.#terms
    return {
      id: this.#client.environment.id(),
      key: this.#key,
      mode: this.#sharing.mode,
      limit: this.#sharing.limit,
      range: this.#scope.range,
      replaces: undefined,
      priority: terms.priority,
      wait: this.#mayQueue,
      evict: terms.evict,
      staleMs: terms.staleMs,
      ttlMs: terms.ttlMs,
      graceMs: terms.graceMs,
      maxHoldMs: terms.maxHoldMs,
      detached: undefined,
      runner: claimant(this.#client.runner, terms.party, terms.metadata),
    }
  }

  protected queued(ahead: number): void {
    this.#contend()
    this.#client.emit('waiting', this.#scope, { key: this.#key, ahead })
  }

  protected granted(tenure: Tenure, { fence, after, at }: Grant): void {
    const client = this.#client
    const scope = this.#scope
    const key = this.#key
    const lease = new Lease(client, tenure, scope, this.#terms, fence, at)
    client.emit('acquired', scope, { key, fence, waitMs: at - this.since, attempts: this.attempts })
    if (after !== undefined) {
      client.emit('takeover', scope, { key, fence, after })
      if (after.how !== 'max-hold') client.emit('stale', scope, { key, after })
    }
    this.#acquired(lease)
  }

  protected missed(miss: Miss): void {
    if (miss.type === 'refused' && miss.standing.reason === 'refused') this.#contend()
    this.#missed({ miss, attempts: this.attempts, waitedMs: this.#client.environment.now() - this.since })
  }

  /** Counted once an acquisition, however often it had to ask. */
  #contend(): void {
    if (!this.#contended) this.#client.emit('contention', this.#scope, { key: this.#key })
    this.#contended = true
  }
}

/** The error that an acquisition without a lease rejects with. */
export async function refusal(client: Client, scope: Scope, missed: Missed, terms: Terms): Promise<LeaseholdError> {
  const error = await describeRefusal(client, scope, missed, terms)
  const { attempts, waitedMs } = missed
  const key = storeKey(client.namespace, scope.key)
  client.emit('failed', scope, { key, code: error.code, waitMs: waitedMs, attempts })
  return error
}

async function describeRefusal(client: Client, scope: Scope, missed: Missed, terms: Terms): Promise<LeaseholdError> {
  const name = JSON.stringify(describeScope(scope))
  const waited = `${Math.round(missed.waitedMs)} ms`
  const { miss } = missed
  const fail = (code: ErrorCode, message: string, details: ErrorDetails = {}): LeaseholdError =>
    new LeaseholdError(code, message, {
      scope: describeScope(scope),
      key: storeKey(client.namespace, scope.key),
      attempts: missed.attempts,
      ...details,
    })
  switch (miss.type) {
    case 'aborted':
      return fail('ABORTED', `Waiting for ${name} was aborted after ${waited}.`, {
        cause: terms.patience.signal?.reason,
      })
    case 'closed':
      return fail('CLOSED', `The client was closed while waiting for ${name}.`)
    case 'failed':
      if (miss.error instanceof LeaseholdError && miss.error.code !== 'UNAVAILABLE') return miss.error
      return fail('UNAVAILABLE', `${name} could not be asked for: ${plain(miss.error)}`, unavailable(miss.error))
    case 'timeout': {
      if (miss.error !== undefined) {
        const why = `${name} could not be had within ${waited}: ${plain(miss.error)}`
        return fail('UNAVAILABLE', why, unavailable(miss.error))
      }
      const holders = await holdersOf(client, scope)
      const position = miss.ahead === undefined ? {} : { queuePosition: miss.ahead }
      return fail('TIMEOUT', `${name} was not granted within ${waited}.${heldBy(holders)}`, { holders, ...position })
    }
    case 'refused':
      break
  }
  const { reason, detail } = miss.standing
  if (reason === 'deadlock')
    return fail('DEADLOCK', `${name} is being converted by another holder. Release yours and retry.`)
  if (reason === 'mismatch') {
    return fail('SCOPE_MISMATCH', `${name} is shared by a different limit. Use the same number everywhere.`)
  }
  const holders = await holdersOf(client, scope)
  const why = reason === 'refused' ? heldBy(holders) : ` The store says: ${detail ?? reason}.`
  return fail('HELD', `${name} is held by somebody else.${why}`, { holders })
}

function heldBy(holders: NonNullable<ErrorDetails['holders']>): string {
  const [first] = holders
  if (first === undefined) return ''
  const others = holders.length > 1 ? ` and ${holders.length - 1} more` : ''
  return ` Held by ${first.runner.id} on ${first.runner.host} since ${first.acquiredAt.toISOString()}${others}.`
}

function unavailable(error: unknown): ErrorDetails {
  if (!(error instanceof LeaseholdError)) return { cause: error, reason: 'network' }
  const { reason, retryAfterMs } = error
  return { cause: error, reason: reason ?? 'network', ...(retryAfterMs !== undefined && { retryAfterMs }) }
}

/** The message without its code, for use inside another. */
function plain(error: unknown): string {
  const message = messageOf(error)
  return error instanceof LeaseholdError ? message.slice(error.code.length + 2) : message
}
