import type { Request, Standing, Succession, Supports } from '../driver.ts'
import { LeaseholdError } from '../errors.ts'
import { ttlMaxOf } from '../limits.ts'

/**
 * The answer to a request, once it has been checked: a driver is somebody else's code. No answer gives more time than a
 * renewal asked for, or than the store's longest ttl: a longer lease is cut to that. What makes no sense is answered
 * `unknown`.
 */
export function checkedAnswer(standing: Standing | null | undefined, request: Request, supports: Supports): Standing {
  if (standing === undefined || standing === null) return { state: 'unknown', error: malformed('nothing') }
  switch (standing.state) {
    case 'held':
      if (!isFence(standing.fence) || !isAmount(standing.ttlMs)) break
      if (!isTextOrAbsent(standing.leaving) || !isSuccessionOrAbsent(standing.after)) break
      return withTtlOf(standing, longestMs(request, supports))
    case 'waiting':
      if (!isCount(standing.ahead) || !isAmount(standing.ttlMs) || !isAmount(standing.againMs)) break
      return withTtlOf(standing, longestMs(request, supports))
    case 'absent':
      if (typeof standing.reason === 'string' && isTextOrAbsent(standing.detail)) return standing
      break
    case 'unknown':
      return standing
  }
  return { state: 'unknown', error: malformed(shown(standing)) }
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

function isFence(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) > 0
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/** A lease without an end would be one that nobody stops trusting. */
function isAmount(value: unknown): boolean {
  return Number.isFinite(value) && (value as number) >= 0
}

function isTextOrAbsent(value: unknown): boolean {
  return value === undefined || typeof value === 'string'
}

function isSuccessionOrAbsent(value: Succession | undefined): boolean {
  if (value === undefined) return true
  return typeof value === 'object' && value !== null && isCount(value.fence) && typeof value.runner?.id === 'string'
}

/** In short: an answer may be of any size. */
function shown(value: unknown): string {
  try {
    return JSON.stringify(value).slice(0, 500)
  } catch {
    return typeof value
  }
}
