import { LeaseholdError } from '../core/errors.ts'

/**
 * The error of every refused write: code LOST, reason `superseded`. Whoever gets it has been replaced; it must stop, and
 * must not try again with the same fence.
 * @internal
 */
export function superseded(resource: string, fence: number, seen?: number): LeaseholdError {
  const why = seen === undefined ? 'a later holder has written, or it is not there' : `fence ${seen} has been seen`
  return new LeaseholdError('LOST', `Fence ${fence} may not write ${JSON.stringify(resource)}: ${why}. Stop writing.`, {
    scope: resource,
    fence,
    reason: 'superseded',
  })
}

/** Whether an error says that a write came from a holder that has been replaced. */
export function isSuperseded(error: unknown): error is LeaseholdError {
  return error instanceof LeaseholdError && error.code === 'LOST' && error.reason === 'superseded'
}

/** A fence that came from outside. Numbers beyond 2^53 are not told apart, so they are refused. @internal */
export function checkFence(fence: number): number {
  if (Number.isSafeInteger(fence) && fence > 0) return fence
  throw new LeaseholdError('INVALID', `A fence is a whole number from 1 to 2^53, not ${String(fence)}.`)
}
