import { LeaseholdError } from '../core/errors.ts'

/**
 * The error of every refused write: code LOST, reason `superseded`. A later holder has replaced the caller, which must stop
 * and must not retry with the same fence.
 * @internal
 */
export function superseded(resource: string, fence: number, seen?: number | string): LeaseholdError {
  const known = typeof seen === 'number' ? `fence ${seen} has been seen` : seen
  const why = known ?? 'a later holder has written, or it does not exist'
  return new LeaseholdError('LOST', `Fence ${fence} may not write ${JSON.stringify(resource)}: ${why}. Stop writing.`, {
    scope: resource,
    fence,
    reason: 'superseded',
  })
}

/** The error of a guarded write of something that does not exist: code INVALID, reason `missing`. @internal */
export function missing(resource: string, fence: number): LeaseholdError {
  const advice = 'Insert it together with its fence, or find out which holder has deleted it.'
  return new LeaseholdError(
    'INVALID',
    `There is no ${JSON.stringify(resource)} to write under fence ${fence}. ${advice}`,
    {
      scope: resource,
      fence,
      reason: 'missing',
    },
  )
}

/** Whether an error says that what a guard was to write does not exist, as `sqlGuard().checkRow` finds out. */
export function isMissing(error: unknown): error is LeaseholdError {
  return error instanceof LeaseholdError && error.code === 'INVALID' && error.reason === 'missing'
}

/** Whether an error says that a guard refused the write of a replaced holder. */
export function isSuperseded(error: unknown): error is LeaseholdError {
  return error instanceof LeaseholdError && error.code === 'LOST' && error.reason === 'superseded'
}

/** Checks a fence from outside. Numbers from 2^53 on are not exact, so they are refused. @internal */
export function checkFence(fence: number): number {
  if (Number.isSafeInteger(fence) && fence > 0) return fence
  throw new LeaseholdError('INVALID', `A fence is a whole number from 1 to 2^53, not ${String(fence)}.`)
}
