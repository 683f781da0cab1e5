import type { ClaimStatus } from '../../core/contract/driver.ts'
import { LeaseholdError, type ErrorCode } from '../../core/errors.ts'

/** Reasons that are words of ours: nothing of the store is in them. */
const reasonForm = /^[a-z][a-z-]{0,31}$/

const said: Partial<Readonly<Record<ErrorCode, string>>> = {
  UNSUPPORTED: 'The store behind this server cannot do that. docs/guarantees.md shows which stores can.',
  INVALID: "The store behind this server refused that. The server's log says why.",
  CLOSED: 'This server is closing.',
}

/**
 * The error that a caller is told when the store fails. A store's own message may name its host, file, user or the locks of
 * others, which are nobody's business who only has a token: it goes to the log.
 * @internal
 */
export function publicFault(error: unknown): LeaseholdError {
  if (!(error instanceof LeaseholdError)) return failed('store')
  const { code, reason, retryAfterMs } = error
  const message = said[code]
  if (message !== undefined) return new LeaseholdError(code, message)
  // `auth` would tell the caller that its own token is wrong; it is the server's login that is.
  if (reason === 'auth') return failed('configuration')
  return failed(reason !== undefined && reasonForm.test(reason) ? reason : 'store', retryAfterMs)
}

/** The status that a caller is told: if it is unknown, with a {@link publicFault}. @internal */
export function publicStatus(status: ClaimStatus): ClaimStatus {
  return status.state === 'unknown' ? { state: 'unknown', error: publicFault(status.error) } : status
}

function failed(reason: string, retryAfterMs?: number): LeaseholdError {
  return new LeaseholdError('UNAVAILABLE', "The store behind this server failed. The server's log says how.", {
    reason,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  })
}
