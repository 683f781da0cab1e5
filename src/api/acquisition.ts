import { adaptivePolling } from '../core/backoff.ts'
import type { Claim, Mode } from '../core/driver.ts'
import { LeaseholdError, messageOf, type ErrorCode, type ErrorDetails } from '../core/errors.ts'
import { claimant } from '../core/runner.ts'
import { describeScope, storeKey, type Scope } from '../core/scope.ts'
import { Waiter, type Outcome, type Wish } from '../core/waiter.ts'
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

/** A lease, or why there is none. */
export type Acquired = { readonly lease: Lease } | { readonly outcome: Exclude<Outcome, { type: 'granted' }> }

/** Claims a scope and follows the claim until it is held or given up. Resolves in every case. */
export function attempt(
  client: Client,
  scope: Scope,
  sharing: Sharing,
  terms: Terms,
  waitMs: number,
): Promise<Acquired> {
  const { driver, environment } = client
  if (scope.range !== undefined && !driver.supports.range) throw unsupported('byte ranges')
  if (sharing.mode === 'shared' && !driver.supports.shared) throw unsupported('shared locks')
  if (sharing.limit !== undefined && !driver.supports.limit) throw unsupported('semaphores')
  const key = storeKey(client.namespace, scope.key)
  const runner = claimant(client.runner, terms.party, terms.metadata)
  let contended = false
  const contend = (): void => {
    if (!contended) client.emit('contention', scope, { key })
    contended = true
  }
  const wish: Wish = {
    newClaim: (): Claim => ({
      id: environment.id(),
      key,
      mode: sharing.mode,
      ...(sharing.limit !== undefined && { limit: sharing.limit }),
      ...(scope.range !== undefined && { range: scope.range }),
      priority: terms.priority,
      wait: waitMs > 0 && driver.supports.queue,
      ...(terms.evict !== undefined && { evict: terms.evict }),
      ...(terms.staleMs !== undefined && { staleMs: terms.staleMs }),
      ttlMs: terms.ttlMs,
      graceMs: terms.graceMs,
      ...(terms.maxHoldMs !== undefined && { maxHoldMs: terms.maxHoldMs }),
      runner,
    }),
    terms: {
      heartbeatMs: terms.heartbeatMs,
      polling: driver.supports.push ? undefined : adaptivePolling,
      spread: environment.random(),
    },
    waitMs,
    signal: terms.signal,
    retry: terms.retry,
    queued: (ahead) => {
      contend()
      client.emit('waiting', scope, { key, ahead })
    },
  }
  return new Promise((resolve) => {
    Waiter.start(client.office, wish, (outcome) => {
      if (outcome.type === 'granted') return resolve({ lease: grant(client, scope, terms, outcome) })
      if (outcome.type === 'refused' && outcome.standing.reason === 'refused') contend()
      resolve({ outcome })
    })
  })
}

function grant(client: Client, scope: Scope, terms: Terms, outcome: Extract<Outcome, { type: 'granted' }>): Lease {
  const { tenure, fence, after, attempts, waitedMs } = outcome
  const lease = new Lease(client, tenure, scope, terms, fence)
  const { key } = lease
  client.emit('acquired', scope, { key, fence, waitMs: waitedMs, attempts })
  if (after !== undefined) {
    client.emit('takeover', scope, { key, fence, after })
    if (after.how !== 'max-hold') client.emit('stale', scope, { key, after })
  }
  return lease
}

/** The error that an acquisition without a lease rejects with. */
export async function refusal(
  client: Client,
  scope: Scope,
  outcome: Exclude<Outcome, { type: 'granted' }>,
  terms: Terms,
): Promise<LeaseholdError> {
  const error = await describeRefusal(client, scope, outcome, terms)
  const { attempts, waitedMs } = outcome
  const key = storeKey(client.namespace, scope.key)
  client.emit('failed', scope, { key, code: error.code, waitMs: waitedMs, attempts })
  return error
}

async function describeRefusal(
  client: Client,
  scope: Scope,
  outcome: Exclude<Outcome, { type: 'granted' }>,
  terms: Terms,
): Promise<LeaseholdError> {
  const name = JSON.stringify(describeScope(scope))
  const waited = `${Math.round(outcome.waitedMs)} ms`
  const fail = (code: ErrorCode, message: string, details: ErrorDetails = {}): LeaseholdError =>
    new LeaseholdError(code, message, {
      scope: describeScope(scope),
      key: storeKey(client.namespace, scope.key),
      attempts: outcome.attempts,
      ...details,
    })
  switch (outcome.type) {
    case 'aborted':
      return fail('ABORTED', `Waiting for ${name} was aborted after ${waited}.`, { cause: terms.signal?.reason })
    case 'closed':
      return fail('CLOSED', `The client was closed while waiting for ${name}.`)
    case 'failed':
      if (outcome.error instanceof LeaseholdError && outcome.error.code !== 'UNAVAILABLE') return outcome.error
      return fail('UNAVAILABLE', `${name} could not be asked for: ${plain(outcome.error)}`, unavailable(outcome.error))
    case 'timeout': {
      if (outcome.error !== undefined) {
        const why = `${name} could not be had within ${waited}: ${plain(outcome.error)}`
        return fail('UNAVAILABLE', why, unavailable(outcome.error))
      }
      const holders = await holdersOf(client, scope)
      const position = outcome.ahead === undefined ? {} : { queuePosition: outcome.ahead }
      return fail('TIMEOUT', `${name} was not granted within ${waited}.${heldBy(holders)}`, { holders, ...position })
    }
    case 'refused':
      break
  }
  const { reason, detail } = outcome.standing
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
