import {
  LeaseholdError,
  plainMessageOf,
  type DeadlockedOwner,
  type ErrorCode,
  type ErrorDetails,
} from '../../core/errors.ts'
import { describeScope, storeKey, type Scope } from '../../core/contract/scope.ts'
import type { Missed } from './acquisition.ts'
import type { Client } from './client.ts'
import { inTheWay } from '../operators/inspection.ts'
import type { Terms } from '../options.ts'

/** The error that an acquisition without a lease rejects with. */
export async function refusal(client: Client, scope: Scope, missed: Missed, terms: Terms): Promise<LeaseholdError> {
  const error = await describeRefusal(client, scope, missed, terms)
  const { attempts, waitedMs } = missed
  const key = storeKey(client.namespace, scope.key)
  client.emitForLock('failed', scope, { key, code: error.code, waitMs: waitedMs, attempts })
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
        cause: terms.waitPolicy.signal?.reason,
      })
    case 'deadlocked':
      return fail('DEADLOCK', `${describeCycle(miss.cycle)} This one gives way: let go of what it holds and retry.`, {
        cycle: miss.cycle,
      })
    case 'closed':
      return fail('CLOSED', `The client was closed while waiting for ${name}.`)
    case 'failed':
      return couldNotBeAsked(client, scope, miss.error, missed.attempts)
    case 'timeout': {
      if (miss.error !== undefined) {
        const why = `${name} could not be had within ${waited}: ${plainMessageOf(miss.error)}`
        return fail('UNAVAILABLE', why, unanswered(miss.error))
      }
      const found = await inTheWay(client, scope, terms.priority)
      const position = miss.ahead === undefined ? {} : { queuePosition: miss.ahead }
      const why = `${name} was not granted within ${waited}.${heldBy(found.holders)}`
      return fail('TIMEOUT', why, { ...found, ...position })
    }
    case 'refused':
      break
  }
  const { reason, detail } = miss.status
  if (reason === 'deadlock')
    return fail('DEADLOCK', `${name} is being converted by another holder. Release yours and retry.`)
  if (reason === 'mismatch') {
    return fail('SCOPE_MISMATCH', `${name} is shared by a different limit. Use the same number everywhere.`)
  }
  const found = await inTheWay(client, scope, terms.priority)
  const why = reason === 'refused' ? heldBy(found.holders) : ` The store says: ${detail ?? reason}.`
  return fail('HELD', `${name} is held by somebody else.${why}`, found)
}

/** For a request about a lock that the store did not answer. What is no fault of the store is told as it is. */
export function couldNotBeAsked(client: Client, scope: Scope, error: unknown, attempts?: number): LeaseholdError {
  if (error instanceof LeaseholdError && error.code !== 'UNAVAILABLE') return error
  const name = describeScope(scope)
  return new LeaseholdError('UNAVAILABLE', `${JSON.stringify(name)} could not be asked for: ${plainMessageOf(error)}`, {
    scope: name,
    key: storeKey(client.namespace, scope.key),
    ...(attempts !== undefined && { attempts }),
    ...unanswered(error),
  })
}

/** Each of the cycle in a sentence. */
function describeCycle(cycle: readonly DeadlockedOwner[]): string {
  const names = cycle.map(({ runner }) => `${runner.id} (${runner.owner ?? 'no owner'})`)
  const waits = cycle.map(
    ({ waitsFor }, index) =>
      `${names[index]} waits for ${JSON.stringify(waitsFor)} because of ${names[(index + 1) % names.length]}.`,
  )
  return waits.join(' ')
}

function heldBy(holders: NonNullable<ErrorDetails['holders']>): string {
  const [first] = holders
  if (first === undefined) return ''
  const others = holders.length > 1 ? ` and ${holders.length - 1} more` : ''
  const { id, host } = first.runner
  // Where comments may be public, hosts are not told.
  const where = host === '' ? '' : ` on ${host}`
  return ` Held by ${id}${where} since ${first.acquiredAt.toISOString()}${others}.`
}

/** Of an error whose cause is that the store did not answer. */
export function unanswered(error: unknown): ErrorDetails {
  if (!(error instanceof LeaseholdError)) return { cause: error, reason: 'network' }
  const { reason, retryAfterMs } = error
  return { cause: error, reason: reason ?? 'network', ...(retryAfterMs !== undefined && { retryAfterMs }) }
}
