import type { AbsentReason, Runner, ClaimStatus, Succession, Notification, Request, Supports } from './driver.ts'
import { LeaseholdError } from '../errors.ts'
import { ttlMaxOf } from './limits.ts'
import { builtin } from '../machine/runtime.ts'

/** Checks of answers and notifications before the client believes them: drivers are other people's code. */

/** Why a claim may be absent. */
export const absentReasons: readonly AbsentReason[] = [
  'refused',
  'expired',
  'released',
  'evicted',
  'max-hold',
  'deadlock',
  'mismatch',
  'unknown',
]
/** How the claim before may have ended, if not by its release. */
export const uncleanEndings: readonly Succession['how'][] = ['expired', 'died', 'evicted', 'max-hold']

/** Whether a value is a claim status. */
export function isClaimStatus(value: unknown): value is ClaimStatus {
  if (typeof value !== 'object' || value === null) return false
  const given = value as Readonly<Record<string, unknown>>
  switch (given['state']) {
    case 'held':
      return isHeld(given)
    case 'waiting':
      return isCount(given['ahead']) && isAmount(given['ttlMs']) && isAmount(given['againMs'])
    case 'absent':
      return absentReasons.includes(given['reason'] as AbsentReason) && isTextOrAbsent(given['detail'])
    case 'unknown':
      return true
    default:
      return false
  }
}

function isHeld({ fence, ttlMs, leaving, after }: Readonly<Record<string, unknown>>): boolean {
  if (!Number.isSafeInteger(fence) || (fence as number) < 1 || !isAmount(ttlMs)) return false
  return isTextOrAbsent(leaving) && (after === undefined || isEnding(after))
}

/** Checks only the fields of a succession that are used: the last holder may have been of another version. */
function isEnding(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { how, cause, runner } = value as Partial<Record<keyof Succession, unknown>>
  return (
    uncleanEndings.includes(how as Succession['how']) &&
    isTextOrAbsent(cause) &&
    typeof (runner as Partial<Runner> | null | undefined)?.id === 'string'
  )
}

/** Whether a value from outside has the fields of a runner. */
export function isRunner(value: unknown): value is Runner {
  if (typeof value !== 'object' || value === null) return false
  const { id, incarnation, host, pid, client, owner, holds, metadata } = value as Partial<Record<keyof Runner, unknown>>
  if (holds !== undefined && !Array.isArray(holds)) return false
  const texts = [id, incarnation, host, client, owner ?? '', ...((holds ?? []) as readonly unknown[])]
  return texts.every((text) => typeof text === 'string') && typeof pid === 'number' && isRecordOrAbsent(metadata)
}

function isRecordOrAbsent(value: unknown): boolean {
  return value === undefined || (typeof value === 'object' && value !== null && !Array.isArray(value))
}

function isTextOrAbsent(value: unknown): boolean {
  return value === undefined || typeof value === 'string'
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/** JSON can say 1e999: a lease without an end would be one that nobody stops trusting. */
function isAmount(value: unknown): value is number {
  return Number.isFinite(value) && (value as number) >= 0
}

/**
 * The answer to a request, checked. If it gives more time than the renewal asked for, or than the store's longest ttl, it
 * is cut to that. An answer that makes no sense becomes `unknown`.
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

/**
 * A pushed notification, once it has been checked like an answer. If it makes no sense, at least something has happened to the
 * claim: `poll`. Drivers drop only what they cannot parse; whoever listens checks the rest.
 */
export function checkedNotification(notification: unknown, supports: Supports): Notification {
  try {
    if (!isClaimStatus(notification)) return 'poll'
  } catch {
    return 'poll'
  }
  if (notification.state === 'absent' || notification.state === 'unknown') return notification
  return withTtlOf(notification, ttlMaxOf(supports))
}

/** The error for an answer that makes no sense. */
export function malformed(answer: string): LeaseholdError {
  return new LeaseholdError('INVALID', `The store's driver answered with ${answer}. This is a fault of the driver.`)
}

/** The longest ttl an answer may have. A claim that is sent again may have been renewed for longer meanwhile. */
function longestMs(request: Request, supports: Supports): number {
  return request.op === 'renew' ? request.ttlMs : ttlMaxOf(supports)
}

function withTtlOf<Answer extends { readonly ttlMs: number }>(answer: Answer, mostMs: number): Answer {
  return answer.ttlMs > mostMs ? { ...answer, ttlMs: mostMs } : answer
}

/** The beginning of an answer, for an error: it may be of any size, and hold anything. */
function shown(value: unknown): string {
  if (value === undefined || value === null) return 'nothing'
  const inspect = builtin('node:util')?.inspect
  const text = inspect?.(value, { depth: 1, breakLength: Infinity }) ?? JSON.stringify(value) ?? typeof value
  return text.slice(0, 500)
}
