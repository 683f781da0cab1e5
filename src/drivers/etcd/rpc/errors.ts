import { LeaseholdError, messageOf } from '../../../core/errors.ts'
import { explained, explanations, refusedBy, type Explanation } from '../../kit/explanation.ts'
import { BadMessage } from './protobuf.ts'

/** The codes of gRPC that etcd uses. */
export const code = {
  invalid: 3,
  deadlineExceeded: 4,
  missing: 5,
  forbidden: 7,
  exhausted: 8,
  precondition: 9,
  unimplemented: 12,
  unavailable: 14,
  unauthenticated: 16,
} as const

/** A call without an answer, or with one that refuses. */
export class CallFault extends Error {
  /** The gRPC status; undefined: there was no answer. */
  readonly status: number | undefined
  /** Whether it is known that nothing was carried out. */
  readonly refused: boolean

  constructor(text: string, status: number | undefined, refused: boolean) {
    super(text)
    this.status = status
    this.refused = refused
  }
}

/** There was no connection to send anything on. */
export function unreachable(where: string, error: unknown): CallFault {
  return new CallFault(`${where} cannot be reached: ${messageOf(error).replace(/\.$/, '')}`, undefined, true)
}

/** The same fault of a call that preceded the request itself. */
export function beforeSending(error: unknown): CallFault {
  if (error instanceof CallFault) return new CallFault(error.message, error.status, true)
  return new CallFault(messageOf(error), undefined, true)
}

/** The call timed out, or the connection ended before the answer. */
export function noAnswerFrom(where: string, why: string): CallFault {
  return new CallFault(`${where} ${why}`, undefined, false)
}

/** Statuses that etcd answers before it carries out anything. */
const refusals: ReadonlySet<number> = new Set([
  code.invalid,
  code.missing,
  code.forbidden,
  code.exhausted,
  code.precondition,
  code.unimplemented,
  code.unauthenticated,
])

/** etcd refused the call. */
export function answeredNo(status: number, text: string): CallFault {
  return new CallFault(text, status, refusals.has(status))
}

/** The lease of a put is gone, so nothing of the transaction was carried out. */
export function isLeaseGone(error: unknown): boolean {
  return error instanceof CallFault && error.status === code.missing && error.message.includes('lease not found')
}

/** A lease of this id exists already. */
export function isLeaseThere(error: unknown): boolean {
  return error instanceof CallFault && error.message.includes('lease already exists')
}

/** The token is no longer valid: nothing was carried out. */
export function isStaleToken(error: unknown): boolean {
  return error instanceof CallFault && /invalid auth token|revision in header is old/.test(error.message)
}

/** Whether it is known that nothing was carried out. */
export function isEtcdRefusal(error: unknown): boolean {
  return error instanceof LeaseholdError || (error instanceof CallFault && error.refused)
}

/** Whether another node may answer. */
export function isNodesFault(error: unknown): boolean {
  if (!(error instanceof CallFault)) return error instanceof BadMessage
  const { status } = error
  return (
    status === undefined ||
    status === code.unavailable ||
    status === code.deadlineExceeded ||
    status === code.unimplemented
  )
}

/** The error a user sees: what happened, and what to do. */
export function etcdError(error: unknown): LeaseholdError {
  return explained('etcd', error, explain, { message: messageOf(error).replace(/^etcdserver: /, '') })
}

/** Parts of etcd's messages, and what they mean. */
const byText: readonly (readonly [RegExp, Explanation])[] = [
  [/authentication failed|invalid auth token/, explanations.badLogin],
  [
    /permission denied|user name is empty/,
    { reason: 'auth', advice: 'Give the user of the URL a role that may read and write the prefix.' },
  ],
  [/database space exceeded/, { reason: 'full', advice: 'Compact and defragment it, then disarm the alarm NOSPACE.' }],
  [/request is too large/, { reason: 'full', advice: 'More claims wait for this key than one value can hold.' }],
  [/too many requests/, { reason: 'busy', advice: 'Nothing was changed; try again.' }],
  [/too many operations/, { reason: 'configuration', advice: 'Start etcd with --max-txn-ops of 128 or more.' }],
  [
    /no leader|leader changed|not leader/,
    { reason: 'failover', advice: 'Another node is becoming leader; try again.' },
  ],
]

function explain(error: unknown): Explanation {
  if (error instanceof BadMessage) return { reason: 'network', advice: 'Is something else listening there?' }
  const text = messageOf(error)
  const known = byText.find(([pattern]) => pattern.test(text))?.[1]
  if (known !== undefined) return known
  if (!(error instanceof CallFault)) return explanations.network
  if (error.status === undefined) return error.refused ? explanations.network : explanations.timedOut
  return error.refused ? refusedBy('etcd') : explanations.timedOut
}
