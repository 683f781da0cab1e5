import { redactedText } from '../../core/contract/redaction.ts'
import { LeaseholdError, messageOf } from '../../core/errors.ts'

/** What an error of a store means to a user: a stable reason, and what to do. */
export interface Explanation {
  readonly reason: string
  readonly advice: string
  readonly retryAfterMs?: number | undefined
}

/** Explanations that are the same for every store. */
export const explanations = {
  network: { reason: 'network', advice: 'Locks that are held live on until their ttl ends.' },
  timedOut: { reason: 'no-answer', advice: 'What was asked may or may not have been done.' },
  diskFull: {
    reason: 'full',
    advice: 'The disk is full. Make room; locks that are held live on until their ttl ends.',
  },
  badLogin: { reason: 'auth', advice: 'The server did not accept the user or password.' },
} as const satisfies Readonly<Record<string, Explanation>>

/** The store said no, and changed nothing. `reason` is the store's own name. */
export function refusedBy(reason: string): Explanation {
  return { reason, advice: 'Nothing was changed.' }
}

/**
 * The error a user sees: what happened, and what to do. A client's message may quote a URL: it is redacted. An error of Leasehold
 * itself stays as it is.
 */
export function explained(
  store: string,
  error: unknown,
  explain: (error: unknown) => Explanation,
  { message = messageOf(error), cause = error }: { readonly message?: string; readonly cause?: unknown } = {},
): LeaseholdError {
  if (error instanceof LeaseholdError) return error
  const { reason, advice, retryAfterMs } = explain(error)
  const details = { reason, cause, ...(retryAfterMs !== undefined && { retryAfterMs }) }
  return new LeaseholdError('UNAVAILABLE', `${store}: ${redactedText(message)}. ${advice}`, details)
}
