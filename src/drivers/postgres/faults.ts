import { messageOf, type LeaseholdError } from '../../core/errors.ts'
import { CallTimedOut, withTimeout } from '../kit/call-timeout.ts'
import { explained, explanations, refusedBy, type Explanation } from '../kit/explanation.ts'

/** The statement never reached the server. */
export class NotSent extends Error {
  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause })
  }
}

/** The statement became part of a transaction that was open on the connection: it counts only if that transaction commits. */
export class InTransaction extends Error {
  constructor() {
    super('The connection was in the middle of a transaction')
  }
}

/** Settles as `answer` does, or rejects with {@link CallTimedOut} once `withinMs` have passed. */
export function answerWithin<Result>(answer: PromiseLike<Result>, withinMs: number): Promise<Result> {
  return withTimeout(answer, withinMs, (milliseconds) => `The database did not answer within ${milliseconds} ms`)
}

/** The five characters by which the server names an error. Undefined: the error is not the server's. */
function sqlState(error: unknown): string | undefined {
  const { code } = (causeOf(error) ?? {}) as { code?: unknown }
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && /\d/.test(code) ? code : undefined
}

function causeOf(error: unknown): unknown {
  return error instanceof NotSent ? error.cause : error
}

/** Whether the server itself refused, and the connection goes on. */
function isServerError(error: unknown): boolean {
  const state = sqlState(error)
  return state !== undefined && !endsConnection(state)
}

/** Whether the connection is as good as before. A read-only one is not: the next may lead to the new primary. */
export function sparesConnection(error: unknown): boolean {
  return isServerError(error) && !spoilt.has(sqlState(error) ?? '')
}

/** The connection is read-only, carries a failed transaction, or has forgotten its prepared statements. */
const spoilt = new Set(['25006', '25P02', '26000'])

/** The server shut down, crashed or ended the session, or the connection broke. */
function endsConnection(state: string): boolean {
  return state.startsWith('08') || state.startsWith('57P')
}

/** Whether the statement surely changed nothing: it never left, or the server rolled it back. */
export function changedNothing(error: unknown): boolean {
  // A backend may be terminated after its commit and before its answer: that is not a refusal.
  return error instanceof NotSent || isServerError(error)
}

/** Whether the same statement may pass next time, having changed nothing. */
export function isWorthRepeating(error: unknown): boolean {
  return passing.has(sqlState(error) ?? '') || isReplaced(error)
}

/** Whether our functions were replaced while they ran. The words are the same in every language of the server. */
function isReplaced(error: unknown): boolean {
  return sqlState(error) === 'XX000' && messageOf(causeOf(error)).startsWith('cache lookup failed')
}

/** Serialization failure, deadlock, lock timeout, statement timeout, too many connections, or a spoilt connection. */
const passing = new Set(['40001', '40P01', '55P03', '57014', '53300', '25P02', '26000'])

/**
 * Whether the server refused the content of a request: data or a record that it cannot read, a violated index, an exceeded limit.
 * The other requests of the batch may be carried out.
 */
export function refusesContent(error: unknown): boolean {
  return contentClasses.has(sqlState(error)?.slice(0, 2) ?? '') && !isNotifyQueueFull(error)
}

const contentClasses = new Set(['21', '22', '23', '54', 'P0', 'XX'])

/** Whether the server has no room for more notifications, as a session that listens does not read. */
export function isNotifyQueueFull(error: unknown): boolean {
  // The word is the same in every language of the server.
  return sqlState(error) === '54000' && messageOf(causeOf(error)).includes('NOTIFY')
}

/** Whether the tables or functions are missing. */
export function isSchemaMissing(error: unknown): boolean {
  const state = sqlState(error)
  return state === '3F000' || state === '42P01' || state === '42883' || state === '42704'
}

/** Raised by the script that makes a schema, if another process has made it meanwhile. */
export const alreadyMade = 'LH001'

/** Whether another process has made the schema meanwhile. */
export function isAlreadyMade(error: unknown): boolean {
  return sqlState(error) === alreadyMade
}

/** The error a user sees for whatever went wrong: what happened, and what to do. */
export function postgresError(error: unknown): LeaseholdError {
  return explained('PostgreSQL', error, explain, { cause: causeOf(error) })
}

function explain(error: unknown): Explanation {
  if (error instanceof CallTimedOut) return explanations.timedOut
  if (causeOf(error) instanceof InTransaction) return inTransaction
  if (causeOf(error) instanceof CallTimedOut) return { reason: 'busy', advice: 'No connection of the pool came free.' }
  const state = sqlState(error)
  if (state === undefined) return explanations.network
  return byState[state] ?? byClass[state.slice(0, 2)] ?? refusedBy('postgres')
}

const inTransaction: Explanation = {
  reason: 'configuration',
  advice: 'A lock counts only once it is committed: let no transaction stay open on a connection that locks use too.',
}
const busy: Explanation = { reason: 'busy', advice: 'The database is busy; try again.' }

/** By the server's code, where the class alone does not say enough. */
const byState: Readonly<Record<string, Explanation>> = {
  '25006': { reason: 'read-only', advice: 'This is a standby or read-only: connect to the primary.' },
  '42501': { reason: 'auth', advice: 'Grant this user the rights on the schema, or run the DDL as its owner.' },
  '3D000': { reason: 'configuration', advice: 'There is no such database.' },
  '53100': explanations.diskFull,
  '53200': busy,
  '53300': { reason: 'busy', advice: 'The server takes no more connections; raise max_connections or use a pooler.' },
  '54000': {
    reason: 'postgres',
    advice: 'Nothing was changed. A name may be too long for an index: use a shorter one.',
  },
  '55P03': busy,
  '57014': { reason: 'busy', advice: 'The statement took longer than statement_timeout allows, or was cancelled.' },
}

const byClass: Readonly<Record<string, Explanation>> = {
  '08': explanations.network,
  '22': { reason: 'postgres', advice: 'Nothing was changed. A name, number or text of the request cannot be stored.' },
  '28': explanations.badLogin,
  '40': busy,
  '57': explanations.network,
  '58': { reason: 'io', advice: 'The server could not read or write its files.' },
}
