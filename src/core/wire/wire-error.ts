import { LeaseholdError, plainMessageOf, type ErrorCode } from '../errors.ts'
import { isWithin, yearMs } from '../contract/bounds.ts'

/** An error as it travels between a Leasehold server and its clients. */
export interface WireError {
  readonly code: ErrorCode
  readonly message: string
  readonly reason?: string | undefined
  readonly retryAfterMs?: number | undefined
}

const codes: ReadonlySet<string> = new Set<ErrorCode>([
  'TIMEOUT',
  'ABORTED',
  'HELD',
  'LOST',
  'DEADLOCK',
  'UNAVAILABLE',
  'NOT_HELD',
  'SCOPE_MISMATCH',
  'UNSUPPORTED',
  'INVALID',
  'CLOSED',
])

/** The parts of an error that may leave the process. */
export function toWireError(error: LeaseholdError): WireError {
  const { code, reason, retryAfterMs } = error
  return { code, message: plainMessageOf(error), reason, retryAfterMs }
}

/** The error out of a value from the wire; undefined if it is none. */
export function fromWireError(value: unknown): LeaseholdError | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { code, message, reason, retryAfterMs } = value as Partial<Record<keyof WireError, unknown>>
  if (typeof code !== 'string' || !codes.has(code) || typeof message !== 'string') return undefined
  return new LeaseholdError(code as ErrorCode, message, {
    ...(typeof reason === 'string' && { reason }),
    ...(isWithin(retryAfterMs, { least: 0, most: yearMs }) && { retryAfterMs }),
  })
}
