import { LeaseholdError, messageOf } from '../../core/errors.ts'
import { InTransaction, TimedOut, NotSent } from './bounds.ts'

/** The five characters by which the server names an error. Undefined: it was not the server that complained. */
function sqlState(error: unknown): string | undefined {
  const { code } = (causeOf(error) ?? {}) as { code?: unknown }
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && /\d/.test(code) ? code : undefined
}

function causeOf(error: unknown): unknown {
  return error instanceof NotSent ? error.cause : error
}

/** Whether the server itself refused, and lives on. */
function isServerError(error: unknown): boolean {
  const state = sqlState(error)
  return state !== undefined && !endsConnection(state)
}

/** Whether the connection is as good as before. One that may only read is not: the next may lead to the new primary. */
export function sparesConnection(error: unknown): boolean {
  return isServerError(error) && !spoilt.has(sqlState(error) ?? '')
}

/** It may only read; somebody left a failed transaction on it; somebody made it forget the statements prepared on it. */
const spoilt = new Set(['25006', '25P02', '26000'])

/** Shut down, crashed, terminated, silent for too long, or a broken connection. */
function endsConnection(state: string): boolean {
  return state.startsWith('08') || state.startsWith('57P')
}

/** Whether the statement surely changed nothing: it never left, or the server rolled it back. */
export function changedNothing(error: unknown): boolean {
  // Who terminates a backend may do so after its commit and before its answer.
  return error instanceof NotSent || isServerError(error)
}

/** Whether the same statement may pass next time, having changed nothing. */
export function isWorthRepeating(error: unknown): boolean {
  return passing.has(sqlState(error) ?? '') || isReplaced(error)
}

/** Whether somebody put other functions in the place of ours while they ran. The words are the same in every language. */
function isReplaced(error: unknown): boolean {
  return sqlState(error) === 'XX000' && messageOf(causeOf(error)).startsWith('cache lookup failed')
}

/** Serialization failure, deadlock, a lock or a statement that took too long, no room for a connection, a spoilt one. */
const passing = new Set(['40001', '40P01', '55P03', '57014', '53300', '25P02', '26000'])

/**
 * Whether the server refused what a request says: data that it cannot read, a violated index, a limit exceeded, a record that it cannot
 * read. Another request of the same batch may be carried out.
 */
export function refusesContent(error: unknown): boolean {
  return contentClasses.has(sqlState(error)?.slice(0, 2) ?? '') && !isNotifyQueueFull(error)
}

const contentClasses = new Set(['21', '22', '23', '54', 'P0', 'XX'])

/** Whether some session that listens reads nothing, and the server has no room for more notifications. */
export function isNotifyQueueFull(error: unknown): boolean {
  // The word is the same in every language of the server.
  return sqlState(error) === '54000' && messageOf(causeOf(error)).includes('NOTIFY')
}

/** Whether the tables or functions are missing. */
export function isSchemaMissing(error: unknown): boolean {
  const state = sqlState(error)
  return state === '3F000' || state === '42P01' || state === '42883' || state === '42704'
}

/** Raised by the script that makes a schema, if somebody else has made it meanwhile. */
export const alreadyMade = 'LH001'

/** Whether somebody else has made the schema meanwhile. */
export function isAlreadyMade(error: unknown): boolean {
  return sqlState(error) === alreadyMade
}

/** The error a user sees for whatever went wrong: what happened, and what to do. */
export function faultOf(error: unknown): LeaseholdError {
  if (error instanceof LeaseholdError) return error
  const { reason, advice } = explain(error)
  return new LeaseholdError('UNAVAILABLE', `PostgreSQL: ${messageOf(error)}. ${advice}`, {
    reason,
    cause: causeOf(error),
  })
}

interface Explanation {
  readonly reason: string
  readonly advice: string
}

function explain(error: unknown): Explanation {
  if (error instanceof TimedOut) return noAnswer
  if (causeOf(error) instanceof InTransaction) return inTransaction
  if (causeOf(error) instanceof TimedOut) return { reason: 'busy', advice: 'No connection of the pool came free.' }
  const state = sqlState(error)
  if (state === undefined) return network
  return byState[state] ?? byClass[state.slice(0, 2)] ?? other
}

const network: Explanation = { reason: 'network', advice: 'Locks that are held live on until their ttl ends.' }
const noAnswer: Explanation = { reason: 'no-answer', advice: 'What was asked may or may not have been done.' }
const inTransaction: Explanation = {
  reason: 'configuration',
  advice: 'A lock counts only once it is committed: let no transaction stay open on a connection that locks use too.',
}
const other: Explanation = { reason: 'postgres', advice: 'Nothing was changed.' }
const busy: Explanation = { reason: 'busy', advice: 'The database is busy; try again.' }

/** What the server calls it, where the class alone does not say enough. */
const byState: Readonly<Record<string, Explanation>> = {
  '25006': { reason: 'read-only', advice: 'This is a standby or read-only: connect to the primary.' },
  '42501': { reason: 'auth', advice: 'Grant this user the rights on the schema, or run the DDL as its owner.' },
  '3D000': { reason: 'configuration', advice: 'There is no such database.' },
  '53100': { reason: 'full', advice: 'The disk is full. Make room; locks that are held live on until their ttl ends.' },
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
  '08': network,
  '22': { reason: 'postgres', advice: 'Nothing was changed. A name, number or text of the request cannot be stored.' },
  '28': { reason: 'auth', advice: 'The server did not accept the user or password.' },
  '40': busy,
  '57': network,
  '58': { reason: 'io', advice: 'The server could not read or write its files.' },
}
