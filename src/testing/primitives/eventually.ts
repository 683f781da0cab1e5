import { setTimeout as pause } from 'node:timers/promises'
import type { LeaseholdError } from '../../core/errors.ts'

/** Whether a promise settles within this time; chosen so that a promise that has not settled by then never will. */
export async function settlesWithin(milliseconds: number, promise: Promise<unknown>): Promise<boolean> {
  const settled = promise.then(
    () => true,
    () => true,
  )
  return Promise.race([settled, pause(milliseconds, false)])
}

/** The code of the error a promise rejects with; undefined if it does not. */
export async function codeOf(promise: Promise<unknown>): Promise<unknown> {
  return ((await rejectionOf(promise)) as LeaseholdError | undefined)?.code
}

/** The error a promise rejects with. */
export function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  )
}
