import { LeaseholdError, messageOf } from '../../core/errors.ts'

/** What the errors of the mongodb package have. */
interface MongoFault {
  readonly name?: unknown
  readonly code?: unknown
  readonly errorLabels?: unknown
}

/** There was no answer in the time there was. */
export class TimedOut extends Error {
  constructor() {
    super('There was no answer in time')
  }
}

/** Somebody else made the document in the same moment. */
export function isDuplicate(error: unknown): boolean {
  return (error as MongoFault | undefined)?.code === 11_000
}

/** Whether the server itself refused the command before it changed anything. */
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

/** The error a user sees for whatever went wrong: what happened, and what to do. */
export function mongodbError(error: unknown): LeaseholdError {
  if (error instanceof LeaseholdError) return error
  const { reason, advice } = explain(error)
  return new LeaseholdError('UNAVAILABLE', `MongoDB: ${messageOf(error)}. ${advice}`, { reason, cause: error })
}

/** Interrupted, stepped down, shut down, out of time, or not yet with a majority: it may have been done all the same. */
const uncertain = new Set([
  6, 7, 24, 43, 50, 64, 79, 89, 91, 100, 175, 189, 202, 262, 290, 9001, 10_058, 10_107, 11_600, 11_601, 11_602, 13_435,
  13_436,
])

interface Explanation {
  readonly reason: string
  readonly advice: string
}

const network: Explanation = { reason: 'network', advice: 'Locks that are held live on until their ttl ends.' }
const timedOut: Explanation = { reason: 'no-answer', advice: 'What was asked may or may not have been done.' }
const other: Explanation = { reason: 'mongodb', advice: 'Nothing was changed.' }
const auth: Explanation = { reason: 'auth', advice: 'Give this user the role readWrite on the database.' }
const failover: Explanation = { reason: 'failover', advice: 'Another server is becoming the primary; try again.' }

const byCode: Readonly<Record<number, Explanation>> = {
  13: auth,
  18: { reason: 'auth', advice: 'The server did not accept the user or password.' },
  8000: { reason: 'auth', advice: 'The server did not accept the user or password.' },
  50: timedOut,
  64: timedOut,
  91: failover,
  189: failover,
  10_058: failover,
  10_107: failover,
  11_600: failover,
  11_602: failover,
  13_435: failover,
  13_436: failover,
  10_334: { reason: 'full', advice: 'More claims wait for this key than one document of 16 MB can hold.' },
  14_031: { reason: 'full', advice: 'The disk is full. Make room; locks that are held live on until their ttl ends.' },
}

function explain(error: unknown): Explanation {
  if (error instanceof TimedOut) return timedOut
  const { name, code } = (error ?? {}) as MongoFault
  const known = typeof code === 'number' ? byCode[code] : undefined
  if (known !== undefined) return known
  if (name === 'MongoOperationTimeoutError' || name === 'MongoNetworkTimeoutError') return timedOut
  return name === 'MongoServerError' ? other : network
}
