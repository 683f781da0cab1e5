/** What the answers of the nodes come to. Pure: every rule of counting is here. */
import type { AbsentReason, ClaimStatus, Succession } from '../../core/contract/driver.ts'
import { LeaseholdError, plainMessageOf } from '../../core/errors.ts'

export type HeldStatus = Extract<ClaimStatus, { state: 'held' }>
export type Answers = readonly (ClaimStatus | undefined)[]
export type MajorityVerdict = 'held' | 'absent' | 'unknown' | undefined

interface Count {
  readonly held: number
  readonly absent: number
  readonly unknown: number
  readonly pending: number
}

/**
 * Granted if a majority granted. Not granted as soon as no majority can; then it is contention if a majority gave a
 * clear answer, and otherwise nobody knows.
 */
export function claimVerdict(answers: Answers, majority: number): MajorityVerdict {
  const { held, absent, pending } = countOf(answers)
  if (held >= majority) return 'held'
  if (held + pending >= majority) return undefined
  if (held + absent >= majority) return 'absent'
  return held + absent + pending >= majority ? undefined : 'unknown'
}

/** Renewed if a majority renewed, over if a majority says so. A renewal that reached fewer may be tried again. */
export function renewalVerdict(answers: Answers, majority: number): MajorityVerdict {
  const { held, absent, pending } = countOf(answers)
  if (held >= majority) return 'held'
  if (absent >= majority) return 'absent'
  return Math.max(held, absent) + pending >= majority ? undefined : 'unknown'
}

/** Over once a majority says so: whoever claims next finds a majority free. */
export function releaseVerdict(answers: Answers, majority: number): Exclude<MajorityVerdict, 'held'> {
  const { absent, pending } = countOf(answers)
  if (absent >= majority) return 'absent'
  return absent + pending >= majority ? undefined : 'unknown'
}

/** For how long at least a majority goes on holding: the majority that holds longest decides. */
export function majorityTtlMs(held: readonly HeldStatus[], majority: number): number {
  const longestFirst = held.map(({ ttlMs }) => ttlMs).toSorted((one, other) => other - one)
  return longestFirst[majority - 1] ?? 0
}

/** Who was here before, if most nodes know of somebody: the latest. One that lags behind tells an old story. */
export function latestSuccession(held: readonly HeldStatus[]): Succession | undefined {
  const stories = held.flatMap(({ after }) => (after === undefined ? [] : [after]))
  if (stories.length * 2 <= held.length) return undefined
  return stories.toSorted((one, other) => other.fence - one.fence)[0]
}

/** Where nodes differ on why a claim is over: what most say, else what says most. */
const tellingFirst: readonly AbsentReason[] = [
  'evicted',
  'max-hold',
  'expired',
  'released',
  'deadlock',
  'mismatch',
  'refused',
  'unknown',
]

export function mergedAbsence(answers: Answers): ClaimStatus {
  const absences = answers.filter((answer) => answer?.state === 'absent')
  const votes = (reason: AbsentReason): number => absences.filter((absence) => absence.reason === reason).length
  const [first] = absences.toSorted(
    (one, other) =>
      votes(other.reason) - votes(one.reason) || tellingFirst.indexOf(one.reason) - tellingFirst.indexOf(other.reason),
  )
  return first ?? { state: 'absent', reason: 'unknown' }
}

/** For an outcome nobody knows, with what each node that failed had to say. */
export function noMajority(answers: Answers, nodes: number): ClaimStatus {
  const errors = answers.flatMap((answer) => (answer?.state === 'unknown' ? [answer.error] : []))
  const said = errors.map((error) => plainMessageOf(error))
  const waits = errors.flatMap((error) => (error instanceof LeaseholdError ? (error.retryAfterMs ?? []) : []))
  const error = new LeaseholdError('UNAVAILABLE', `Too few of ${nodes} nodes gave a clear answer. ${said.join(' ')}`, {
    reason: 'no-majority',
    cause: errors[0],
    ...(waits.length > 0 && { retryAfterMs: Math.min(...waits) }),
  })
  return { state: 'unknown', error }
}

function countOf(answers: Answers): Count {
  const count = { held: 0, absent: 0, unknown: 0, pending: 0 }
  for (const answer of answers) {
    // Nobody queues at a node: a claim that waits there would be one that did not get it.
    if (answer === undefined) count.pending += 1
    else count[answer.state === 'waiting' ? 'absent' : answer.state] += 1
  }
  return count
}
