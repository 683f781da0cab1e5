import type { ClaimStatus } from '../contract/driver.ts'
import { LeaseholdError } from '../errors.ts'
import { isAbsentReason, isAmount, isSuccession } from '../contract/status-check.ts'
import { fromWireError, toWireError, type WireError } from './wire-error.ts'

/** A status as it travels between a Leasehold server and its clients. */
export type WireStatus =
  | Exclude<ClaimStatus, { state: 'unknown' }>
  | { readonly state: 'unknown'; readonly error: WireError }

/** The status for the wire. `describe` makes a LeaseholdError out of any other error. */
export function toWireStatus(status: ClaimStatus, describe: (error: unknown) => LeaseholdError): WireStatus {
  if (status.state !== 'unknown') return status
  const { error } = status
  return { state: 'unknown', error: toWireError(error instanceof LeaseholdError ? error : describe(error)) }
}

/** The status out of a value from the wire; undefined if it is none. */
export function fromWireStatus(value: unknown): ClaimStatus | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const given = value as Readonly<Record<string, unknown>>
  switch (given['state']) {
    case 'held':
      return heldFrom(given)
    case 'waiting': {
      const { ahead, ttlMs, againMs } = given
      return isAmount(ahead) && isAmount(ttlMs) && isAmount(againMs)
        ? { state: 'waiting', ahead, ttlMs, againMs }
        : undefined
    }
    case 'absent': {
      const { reason, detail } = given
      if (!isAbsentReason(reason) || (detail !== undefined && typeof detail !== 'string')) return undefined
      return { state: 'absent', reason, ...(detail !== undefined && { detail }) }
    }
    case 'unknown': {
      const error = fromWireError(given['error'])
      return error && { state: 'unknown', error }
    }
    default:
      return undefined
  }
}

function heldFrom({ fence, ttlMs, leaving, after }: Readonly<Record<string, unknown>>): ClaimStatus | undefined {
  if (!Number.isSafeInteger(fence) || (fence as number) < 1 || !isAmount(ttlMs)) return undefined
  if (leaving !== undefined && typeof leaving !== 'string') return undefined
  if (after !== undefined && !isSuccession(after)) return undefined
  return { state: 'held', fence: fence as number, ttlMs, leaving, after }
}
