import { LeaseholdError, messageOf } from '../../../core/errors.ts'
import { objectOf } from '../protocol/comment-text.ts'

/** The part of an octokit error that has GitHub's reply. */
interface Answered {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
}

/** The reply of GitHub, if there was one. octokit gives a failed connection the status 500 and no response. */
export function answerIn(error: unknown): Answered | undefined {
  const thrown = objectOf(error) ?? (error instanceof Error ? (error as unknown as Record<string, unknown>) : undefined)
  const response = objectOf(thrown?.['response'])
  const status = response?.['status'] ?? thrown?.['status']
  if (response === undefined || typeof status !== 'number') return undefined
  return { status, headers: objectOf(response['headers']) ?? {} }
}

/** Whether the requested object does not exist, or no longer. */
export function isNotFound(error: unknown): boolean {
  const status = answerIn(error)?.status
  return status === 404 || status === 410
}

/** Whether a failed request may nevertheless have taken effect. */
export function isInDoubt(error: unknown): boolean {
  if (error instanceof LeaseholdError) return error.reason !== 'rate-limit'
  const status = answerIn(error)?.status
  return status === undefined || status >= 500
}

/** How long to send nothing, if GitHub refused because of too many requests. */
export function limitedForMs(error: unknown, dateMs: number): number | undefined {
  const answer = answerIn(error)
  if (answer === undefined || (answer.status !== 403 && answer.status !== 429)) return undefined
  const { headers } = answer
  const retryAfter = Number(headers['retry-after'] ?? NaN)
  if (Number.isFinite(retryAfter)) return Math.max(0, retryAfter) * 1000
  if (String(headers['x-ratelimit-remaining']) === '0') {
    return Math.max(0, Number(headers['x-ratelimit-reset'] ?? 0) * 1000 - dateMs) + 1000
  }
  // Without a time in the reply, GitHub asks to wait a minute.
  return answer.status === 429 || /secondary rate limit/i.test(messageOf(error)) ? 60_000 : undefined
}

/** The error of a request that is not sent because of the rate limit. */
export function limited(retryAfterMs: number, cause?: unknown): LeaseholdError {
  const seconds = Math.ceil(retryAfterMs / 1000)
  return new LeaseholdError('UNAVAILABLE', `GitHub allows no more requests for ${seconds} s.`, {
    reason: 'rate-limit',
    retryAfterMs,
    ...(cause !== undefined && { cause }),
  })
}

/** The error for the user: what happened, and what to do. */
export function githubError(error: unknown): LeaseholdError {
  if (error instanceof LeaseholdError) return error
  const status = answerIn(error)?.status
  const message = messageOf(error)
  switch (status) {
    case undefined:
      return unavailable(`GitHub cannot be reached: ${message}.`, 'network', error)
    case 401:
      return unavailable('GitHub rejects the token. Is it expired or revoked?', 'auth', error)
    case 403:
      return unavailable(
        `GitHub forbids the request: ${message}. The token must be allowed to write issues.`,
        'auth',
        error,
      )
    case 404:
      return unavailable(
        'GitHub shows no such repository or issue. Check the name, and what the token may see.',
        'auth',
        error,
      )
    case 410:
      return unavailable('The issue was deleted, or the repository has no issues.', 'gone', error)
    case 422:
      return new LeaseholdError('INVALID', `GitHub rejects the request: ${message}.`, { cause: error })
    default:
      return unavailable(`GitHub failed with ${status}: ${message}.`, 'network', error)
  }
}

/** An UNAVAILABLE error with a reason. */
export function unavailable(message: string, reason: string, cause?: unknown): LeaseholdError {
  return new LeaseholdError('UNAVAILABLE', message, { reason, ...(cause !== undefined && { cause }) })
}
