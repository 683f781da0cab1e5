import type { Request, ClaimStatus, Supports } from '../driver.ts'
import { LeaseholdError } from '../errors.ts'
import { ttlMaxOf } from '../limits.ts'
import { builtin } from '../machine/builtin.ts'
import { isClaimStatus } from '../status-check.ts'

/**
 * The answer to a request, once it has been checked: a driver is somebody else's code. No answer gives more time than a
 * renewal asked for, or than the store's longest ttl: a longer lease is cut to that. What makes no sense is answered
 * `unknown`.
 */
export function checkedAnswer(
  status: ClaimStatus | null | undefined,
  request: Request,
  supports: Supports,
): ClaimStatus {
  try {
    if (!isClaimStatus(status)) return { state: 'unknown', error: malformed(shown(status)) }
  } catch {
    return { state: 'unknown', error: malformed('something that cannot be read') }
  }
  if (status.state === 'absent' || status.state === 'unknown') return status
  return withTtlOf(status, longestMs(request, supports))
}

/** The error for an answer that makes no sense. */
export function malformed(what: string): LeaseholdError {
  return new LeaseholdError('INVALID', `The store's driver answered with ${what}. This is a fault of the driver.`)
}

/** The longest that a claim can last after this request. One that is sent again may have been renewed for longer since. */
function longestMs(request: Request, supports: Supports): number {
  return request.op === 'renew' ? request.ttlMs : ttlMaxOf(supports)
}

function withTtlOf<Answer extends { readonly ttlMs: number }>(answer: Answer, mostMs: number): Answer {
  return answer.ttlMs > mostMs ? { ...answer, ttlMs: mostMs } : answer
}

/** In short: an answer may be of any size, and hold anything. */
function shown(value: unknown): string {
  if (value === undefined || value === null) return 'nothing'
  const inspect = builtin('node:util')?.inspect
  const text = inspect?.(value, { depth: 1, breakLength: Infinity }) ?? JSON.stringify(value) ?? typeof value
  return text.slice(0, 500)
}
