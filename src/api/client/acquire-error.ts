import {
  LeaseholdError,
  plainMessageOf,
  type DeadlockedOwner,
  type ErrorCode,
  type ErrorDetails,
} from '../../core/errors.ts'
import { describeScope, storeKey, type Scope } from '../../core/contract/scope.ts'
import type { Acquisition, Miss } from './acquisition.ts'
import type { Client } from './client.ts'
import { inTheWay } from '../operators/inspection.ts'

/** The error of an acquisition that missed, told to listeners as `failed`. `waitedMs`: of the call that the caller made. */
export async function acquireError(
  acquisition: Acquisition,
  miss: Miss,
  waitedMs = acquisition.waitedMs,
): Promise<LeaseholdError> {
  const error = await describeMiss(acquisition, miss, waitedMs)
  const { client, request, key, attempts } = acquisition
  client.emitForLock('failed', request.scope, { key, code: error.code, waitMs: waitedMs, attempts })
  return error
}

async function describeMiss(acquisition: Acquisition, miss: Miss, waitedMs: number): Promise<LeaseholdError> {
  const { client, request, key, attempts } = acquisition
  const { scope, terms } = request
  const name = JSON.stringify(describeScope(scope))
  const waited = `${Math.round(waitedMs)} ms`
  const fail = (code: ErrorCode, message: string, details: ErrorDetails = {}): LeaseholdError =>
    new LeaseholdError(code, message, { scope: describeScope(scope), key, attempts, ...details })
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
      return couldNotBeAsked(client, scope, miss.error, attempts)
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

/** The error of a request about a lock that the store did not answer. An error that is not the store's stays as it is. */
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

/** One sentence for each owner of the cycle. */
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
  const more = holders.length > 1 ? ` and ${holders.length - 1} more` : ''
  const { id, host } = first.runner
  // A store whose records may be public keeps no host.
  const where = host === '' ? '' : ` on ${host}`
  return ` Held by ${id}${where} since ${first.acquiredAt.toISOString()}${more}.`
}

/** The details of an error whose cause is that the store did not answer. */
export function unanswered(error: unknown): ErrorDetails {
  if (!(error instanceof LeaseholdError)) return { cause: error, reason: 'network' }
  const { reason, retryAfterMs } = error
  return { cause: error, reason: reason ?? 'network', ...(retryAfterMs !== undefined && { retryAfterMs }) }
}
