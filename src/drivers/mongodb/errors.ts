import type { LeaseholdError } from '../../core/errors.ts'
import { CallTimedOut } from '../kit/call-timeout.ts'
import { explained, explanations, refusedBy, type Explanation } from '../kit/explanation.ts'

/** What the errors of the mongodb package have. */
interface MongoFault {
  readonly name?: unknown
  readonly code?: unknown
  readonly errorLabels?: unknown
}

/** The message of a call that timed out. */
export const noAnswerInTime = (): string => 'There was no answer in time'

/** Another client inserted the document at the same moment. */
export function isDuplicate(error: unknown): boolean {
  return (error as MongoFault | undefined)?.code === 11_000
}

/** Whether the server refused the command before it changed anything. */
export function isMongodbRefusal(error: unknown): boolean {
  const { name, code } = (error ?? {}) as MongoFault
  return name === 'MongoServerError' && typeof code === 'number' && !uncertain.has(code)
}

/** Whether an answer, or a document, would have been larger than MongoDB allows. */
export function isTooLarge(error: unknown): boolean {
  return (error as MongoFault | undefined)?.code === 10_334
}

/** Whether the server cannot do linearizable reads, being alone. */
export function isAlone(error: unknown): boolean {
  return (error as MongoFault | undefined)?.code === 123
}

/** The error a user sees: what happened, and what to do. */
export function mongodbError(error: unknown): LeaseholdError {
  return explained('MongoDB', error, explain)
}

/** Codes of commands that were interrupted, timed out or not yet with a majority: they may have been carried out all the same. */
const uncertain = new Set([
  6, 7, 24, 43, 50, 64, 79, 89, 91, 100, 175, 189, 202, 262, 290, 9001, 10_058, 10_107, 11_600, 11_601, 11_602, 13_435,
  13_436,
])

const auth: Explanation = { reason: 'auth', advice: 'Give this user the role readWrite on the database.' }
const failover: Explanation = { reason: 'failover', advice: 'Another server is becoming the primary; try again.' }

const byCode: Readonly<Record<number, Explanation>> = {
  13: auth,
  18: explanations.badLogin,
  8000: explanations.badLogin,
  50: explanations.timedOut,
  64: explanations.timedOut,
  91: failover,
  189: failover,
  10_058: failover,
  10_107: failover,
  11_600: failover,
  11_602: failover,
  13_435: failover,
  13_436: failover,
  10_334: { reason: 'full', advice: 'More claims wait for this key than one document of 16 MB can hold.' },
  14_031: explanations.diskFull,
}

function explain(error: unknown): Explanation {
  if (error instanceof CallTimedOut) return explanations.timedOut
  const { name, code } = (error ?? {}) as MongoFault
  const known = typeof code === 'number' ? byCode[code] : undefined
  if (known !== undefined) return known
  if (name === 'MongoOperationTimeoutError' || name === 'MongoNetworkTimeoutError') return explanations.timedOut
  return name === 'MongoServerError' ? refusedBy('mongodb') : explanations.network
}
