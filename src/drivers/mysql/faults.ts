import { messageOf, type LeaseholdError } from '../../core/errors.ts'
import { CallTimedOut } from '../kit/call-timeout.ts'
import { explained, explanations, refusedBy, type Explanation } from '../kit/explanation.ts'

/** The message of a call that timed out. */
export const noMysqlAnswer = (withinMs: number): string => `The database did not answer within ${withinMs} ms`

/** The session cannot be used as it is: a transaction is open on it, or its server takes no writes. */
export class UnfitSession extends Error {
  override readonly name = 'UnfitSession'
  readonly explanation: Explanation

  constructor(message: string, explanation: Explanation) {
    super(message)
    this.explanation = explanation
  }
}

/** The number by which the server names an error. Undefined: the error is not the server's; both clients use numbers of their own. */
function serverErrorOf(error: unknown): number | undefined {
  const { errno } = (error ?? {}) as { errno?: unknown }
  return typeof errno === 'number' && errno >= 1000 && errno < 45_000 ? errno : undefined
}

/** The server's error without the statement, which both clients quote: it has the ids of claims, and those are secrets. */
export function withoutStatement(error: unknown): unknown {
  const { sql, sqlMessage, code, errno, sqlState, fatal } = (error ?? {}) as Record<string, unknown>
  if (typeof sql !== 'string') return error
  const message = typeof sqlMessage === 'string' ? sqlMessage : messageOf(error).replaceAll(sql, '…')
  return Object.assign(new Error(message), { code, errno, sqlState, fatal })
}

/** Whether the server answered with an error and the connection is as good as before. */
export function sparesMysqlConnection(error: unknown): boolean {
  const number = serverErrorOf(error)
  return number !== undefined && !spoiling.has(number) && (error as { fatal?: unknown }).fatal !== true
}

/** A write that failed so changed nothing, and may pass next time: deadlock, lock or statement timeout, a lost certification. */
export function isWorthWritingAgain(error: unknown): boolean {
  return passing.has(serverErrorOf(error) ?? 0)
}

/** Whether a read may pass next time: also when its connection turned out to be dead. */
export function isWorthReadingAgain(error: unknown): boolean {
  const number = serverErrorOf(error)
  if (number === undefined) return !(error instanceof CallTimedOut) && isBroken(error)
  return passing.has(number) || broken.has(number)
}

/** Whether the connection broke after it had been made: another one may be alive. */
function isBroken(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown }
  return (
    typeof code === 'string' &&
    /^(?:PROTOCOL_CONNECTION_LOST|ECONNRESET|EPIPE|ER_SOCKET_UNEXPECTED_CLOSE|ER_CMD_CONNECTION_CLOSED|ER_CONNECTION_ALREADY_CLOSED)$/.test(
      code,
    )
  )
}

export function isTableMissing(error: unknown): boolean {
  return serverErrorOf(error) === 1146
}

/** The error a user sees: what happened, and what to do. */
export function mysqlError(error: unknown): LeaseholdError {
  return explained('MySQL', error, explain)
}

export const openTransaction: Explanation = {
  reason: 'configuration',
  advice:
    'A lock counts only once it is committed: let no transaction stay open on a connection that goes back to the pool.',
}
export const readOnly: Explanation = {
  reason: 'read-only',
  advice: 'This is a replica or read-only: connect to the primary.',
}
export const databaseMissing: Explanation = {
  reason: 'configuration',
  advice: 'Name a database: mysql://user@host/database.',
}
const lockedTables: Explanation = {
  reason: 'configuration',
  advice: 'Unlock tables before a connection goes back to the pool.',
}
const busy: Explanation = { reason: 'busy', advice: 'The database is busy; try again.' }
const crowded: Explanation = {
  reason: 'busy',
  advice: 'The server takes no more connections; raise max_connections or use a smaller pool.',
}
const failover: Explanation = { reason: 'failover', advice: 'This node takes no statements now; try again.' }
const rights: Explanation = {
  reason: 'auth',
  advice: 'Grant this user select, insert, update and delete on the table, and create, or make the table as its owner.',
}
const tooLarge: Explanation = {
  reason: 'full',
  advice: 'More claims wait for a key than a statement may carry: raise max_allowed_packet.',
}

const byNumber: Readonly<Record<number, Explanation>> = {
  1020: busy,
  1021: explanations.diskFull,
  1040: crowded,
  1044: rights,
  1045: explanations.badLogin,
  1046: databaseMissing,
  1047: failover,
  1049: { reason: 'configuration', advice: 'There is no such database.' },
  1053: failover,
  1099: lockedTables,
  1100: lockedTables,
  1114: explanations.diskFull,
  1142: rights,
  1143: rights,
  1153: tooLarge,
  1203: crowded,
  1205: busy,
  1213: busy,
  1223: lockedTables,
  1226: crowded,
  1227: rights,
  1290: readOnly,
  1317: { reason: 'busy', advice: 'The statement was killed; try again.' },
  1698: explanations.badLogin,
  1792: readOnly,
  1836: readOnly,
  1969: { reason: 'busy', advice: 'The statement took longer than max_statement_time allows.' },
  2013: explanations.network,
  3024: { reason: 'busy', advice: 'The statement took longer than max_execution_time allows.' },
  3101: busy,
}

/** Nothing was changed by a statement that was undone for another's sake. */
const passing = new Set([1020, 1205, 1213, 1317, 1969, 3024, 3101])
/** The session or its server comes to an end, or is no full member of its cluster: another connection may do. */
const broken = new Set([1047, 1053, 1077, 1079, 1152, 1184, 1927, 3169, 4031])
const spoiling = new Set([...broken, 1099, 1100, 1153, 1223, 1290, 1792, 1836])

function explain(error: unknown): Explanation {
  if (error instanceof UnfitSession) return error.explanation
  if (error instanceof CallTimedOut) return explanations.timedOut
  const number = serverErrorOf(error)
  if (number === undefined) return explanations.network
  return byNumber[number] ?? (broken.has(number) ? explanations.network : refusedBy('mysql'))
}
