import type { Runner } from './contract/driver.ts'
import { printable } from './printable.ts'

/** Stable names for what can go wrong. Contention is a value, not an error, where the caller did not ask to wait. */
export type ErrorCode =
  /** The lock was not granted within `wait` or the allowed attempts. */
  | 'TIMEOUT'
  /** The caller's signal fired. */
  | 'ABORTED'
  /** Another claim holds the lock, and the caller did not want to wait. */
  | 'HELD'
  /** The lease ended while its holder still wanted it. */
  | 'LOST'
  /** Waiting would never end. */
  | 'DEADLOCK'
  /** The store could not be reached, or did not answer. */
  | 'UNAVAILABLE'
  /** This lease is not, or no longer, held. */
  | 'NOT_HELD'
  /** The lease is for another scope, or the scope's limit is another. */
  | 'SCOPE_MISMATCH'
  /** This store cannot do that. */
  | 'UNSUPPORTED'
  /** An argument, an option, or a reply from the store makes no sense. */
  | 'INVALID'
  /** The client has been closed. */
  | 'CLOSED'

/** A holder, as shown to a caller that it keeps waiting. */
export interface HolderSummary {
  readonly runner: Runner
  readonly fence: number
  readonly acquiredAt: Date
  readonly remainingMs: number
}

/** One owner of a deadlock. Each waits for the next, and the last for the first. */
export interface DeadlockedOwner {
  readonly runner: Runner
  /** The scope that the owner waits for, as people write it. */
  readonly waitsFor: string
}

/** What an error may say beside its code and message. */
export interface ErrorDetails {
  readonly cause?: unknown
  /** The scope the error is about. */
  readonly scope?: string
  readonly key?: string
  readonly fence?: number
  /** The holders when the lock was not granted. */
  readonly holders?: readonly HolderSummary[]
  /** How many claims waited in front, not counting holders. Absent where the store keeps no queue. */
  readonly queuePosition?: number
  /** For DEADLOCK: each owner waits for the next. The first is the one that gives way. */
  readonly cycle?: readonly DeadlockedOwner[]
  readonly attempts?: number
  /** For UNAVAILABLE: `network`, `busy`, `read-only`, `full`, `corrupt`, `no-answer`, `rate-limit` … For LOST: why. */
  readonly reason?: string
  readonly retryAfterMs?: number
}

/** Marks the errors of every copy of this package: one process may have loaded two. */
const brand = Symbol.for('leasehold error')

/**
 * Every error of Leasehold. `code` is stable; the message says what happened and what to do. It may quote what others wrote into the
 * store, so control characters in it are escaped: programs print messages.
 */
export class LeaseholdError extends Error {
  override readonly name = 'LeaseholdError'
  readonly code: ErrorCode
  declare readonly scope?: string
  declare readonly key?: string
  declare readonly fence?: number
  declare readonly holders?: readonly HolderSummary[]
  declare readonly queuePosition?: number
  declare readonly cycle?: readonly DeadlockedOwner[]
  declare readonly attempts?: number
  declare readonly reason?: string
  declare readonly retryAfterMs?: number

  /** Recognises the errors of other copies of this package, too. @internal */
  static override [Symbol.hasInstance](value: unknown): boolean {
    if (this !== LeaseholdError) return Function.prototype[Symbol.hasInstance].call(this, value)
    return typeof value === 'object' && value !== null && brand in value
  }

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    const { cause, ...rest } = details
    super(`${code}: ${printable(message)}`, cause === undefined ? undefined : { cause })
    this.code = code
    Object.assign(this, rest)
  }
}
Object.defineProperty(LeaseholdError.prototype, brand, { value: true })

/** The error for every call on a closed client. @internal */
export function clientClosed(): LeaseholdError {
  return new LeaseholdError('CLOSED', 'This client has been closed. Connect again.')
}

/** The error for a feature that the store, or whatever `subject` names, lacks. `advice` says what to do instead. @internal */
export function unsupported(
  feature: string,
  subject = 'This store',
  advice = 'docs/guarantees.md shows which stores can.',
): LeaseholdError {
  return new LeaseholdError('UNSUPPORTED', `${subject} cannot do ${feature}. ${advice}`)
}

/** Reasons of UNAVAILABLE that a retry cannot mend. */
const permanent = new Set([
  'auth',
  'read-only',
  'full',
  'corrupt',
  'foreign',
  'newer-format',
  'network-file-system',
  'alias',
  'configuration',
])

/** Whether the same call may succeed a little later. @internal */
export function worthRetrying(error: unknown): boolean {
  if (!(error instanceof LeaseholdError)) return true
  return error.code === 'UNAVAILABLE' && !permanent.has(error.reason ?? '')
}

/** For how long the store takes no request, as far as the error says so; else 0. @internal */
export function retryAfterOf(error: unknown): number {
  const { retryAfterMs = 0 } = error instanceof LeaseholdError ? error : {}
  return retryAfterMs
}

/** The message of anything that was thrown. @internal */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The message without its code: for people, or inside another message. @internal */
export function plainMessageOf(error: unknown): string {
  const message = messageOf(error)
  return error instanceof LeaseholdError ? message.slice(error.code.length + 2) : message
}
