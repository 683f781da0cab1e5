import type { ErrorCode } from '../../core/errors.ts'
import { wireErrorCode, type WireError } from '../../core/wire/replies.ts'
import { amount, anyText, integer, object, optional, type Schema } from '../../core/wire/schema.ts'
import type { Answer } from './call.ts'

/** An error as other languages' programs know it (RFC 9457), with the code of ours beside. */
export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly code: ErrorCode
  readonly reason?: string | undefined
  readonly retryAfterMs?: number | undefined
}

/** A problem, as the OpenAPI document has it. */
export const problemSchema: Schema<Problem> = object<Problem>({
  type: anyText,
  title: anyText,
  status: integer({ least: 400, most: 599 }),
  detail: anyText,
  code: wireErrorCode,
  reason: optional(anyText),
  retryAfterMs: optional(amount),
})

/** The type of an answer that is a problem. */
export const problemType = 'application/problem+json'

/** One line for each code, the same for every occurrence. */
const titles: Readonly<Record<ErrorCode, string>> = {
  TIMEOUT: 'The lock was not granted in time',
  ABORTED: 'The claim was given up while it waited',
  HELD: 'Others hold the lock',
  LOST: 'The lease has ended',
  DEADLOCK: 'Waiting would never end',
  UNAVAILABLE: 'The call cannot be carried out now',
  NOT_HELD: 'The lease is not held',
  SCOPE_MISMATCH: 'The lock is held with another limit',
  UNSUPPORTED: 'The store cannot do that',
  INVALID: 'The call makes no sense',
  CLOSED: 'The server is closed',
}

/** Says what is wrong. `type` names the code, so that a program may tell problems apart by either. */
export function problem(
  status: number,
  { code, message, reason, retryAfterMs }: WireError,
  headers: Readonly<Record<string, string>>,
): Answer {
  const document: Problem = {
    type: `urn:leasehold:${code}`,
    title: titles[code],
    status,
    detail: message,
    code,
    reason,
    retryAfterMs,
  }
  return { status, headers: { ...headers, 'content-type': problemType }, body: JSON.stringify(document) }
}
