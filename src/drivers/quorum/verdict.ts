/** What the answers of the nodes come to. Pure: every rule of counting is here. */
import type { AbsentReason, ClaimStatus, Succession, HeldStatus } from '../../core/contract/driver.ts'
import { LeaseholdError, plainMessageOf, retryAfterOf } from '../../core/errors.ts'

/** The answers to one question, in the order of the nodes; undefined where none has come yet. */
export type Answers = readonly (ClaimStatus | undefined)[]
/** What the answers come to; undefined: more answers are needed. */
export type MajorityVerdict = 'held' | 'absent' | 'unknown' | undefined

/** How many of so many nodes are a majority: any two majorities have a node in common. */
export function majorityOf(nodes: number): number {
  return Math.floor(nodes / 2) + 1
}

interface Count {
  readonly held: number
  readonly absent: number
  readonly unknown: number
  readonly pending: number
}

/**
 * Held if a majority granted the claim. As soon as no majority can: absent if a majority gave a clear answer (contention), else
 * unknown.
 */
export function claimVerdict(answers: Answers, majority: number): MajorityVerdict {
  const { held, absent, pending } = countOf(answers)
  if (held >= majority) return 'held'
  if (held + pending >= majority) return undefined
  if (held + absent >= majority) return 'absent'
  return held + absent + pending >= majority ? undefined : 'unknown'
}

/** Held if a majority renewed the claim, absent if a majority has ended it, else unknown: the renewal may be tried again. */
export function renewalVerdict(answers: Answers, majority: number): MajorityVerdict {
  const { held, absent, pending } = countOf(answers)
  if (held >= majority) return 'held'
  if (absent >= majority) return 'absent'
  return Math.max(held, absent) + pending >= majority ? undefined : 'unknown'
}

/** Absent once a majority has ended the claim: the next claim then finds a majority free. */
export function releaseVerdict(answers: Answers, majority: number): Exclude<MajorityVerdict, 'held'> {
  const { absent, pending } = countOf(answers)
  if (absent >= majority) return 'absent'
  return absent + pending >= majority ? undefined : 'unknown'
}

/** For how long a majority surely goes on holding: the shortest ttl within the majority whose ttls are longest. */
export function majorityTtlMs(held: readonly HeldStatus[], majority: number): number {
  const longestFirst = held.map(({ ttlMs }) => ttlMs).toSorted((a, b) => b - a)
  return longestFirst[majority - 1] ?? 0
}

/** The latest previous holder, if most nodes know of one: a node that lags behind knows an earlier one. */
export function latestSuccession(held: readonly HeldStatus[]): Succession | undefined {
  const successions = held.flatMap(({ after }) => (after === undefined ? [] : [after]))
  if (successions.length * 2 <= held.length) return undefined
  return successions.toSorted((a, b) => b.fence - a.fence)[0]
}

/** Where as many nodes give one reason as another, the more informative reason counts: the earlier in this list. */
const reasonsByWeight: readonly AbsentReason[] = [
  'evicted',
  'max-hold',
  'expired',
  'released',
  'deadlock',
  'mismatch',
  'refused',
  'unknown',
]

/** Why a claim is over: the reason that most nodes give. */
export function mergedAbsence(answers: Answers): ClaimStatus {
  const absences = answers.filter((answer) => answer?.state === 'absent')
  const votes = (reason: AbsentReason): number => absences.filter((absence) => absence.reason === reason).length
  const [first] = absences.toSorted(
    (a, b) =>
      votes(b.reason) - votes(a.reason) || reasonsByWeight.indexOf(a.reason) - reasonsByWeight.indexOf(b.reason),
  )
  return first ?? { state: 'absent', reason: 'unknown' }
}

/** The status of a claim whose outcome is unknown, with the error of each node that gave no clear answer. */
export function noMajority(answers: Answers, nodes: number): ClaimStatus {
  const errors = answers.flatMap((answer) => (answer?.state === 'unknown' ? [answer.error] : []))
  const messages = errors.map((error) => plainMessageOf(error))
  // A node that does not say when to come back may answer at any time.
  let retryAfterMs = Infinity
  for (const error of errors) retryAfterMs = Math.min(retryAfterMs, retryAfterOf(error))
  const error = new LeaseholdError(
    'UNAVAILABLE',
    `Too few of ${nodes} nodes gave a clear answer. ${messages.join(' ')}`,
    {
      reason: 'no-majority',
      cause: errors[0],
      ...(retryAfterMs > 0 && retryAfterMs < Infinity && { retryAfterMs }),
    },
  )
  return { state: 'unknown', error }
}

function countOf(answers: Answers): Count {
  const count = { held: 0, absent: 0, unknown: 0, pending: 0 }
  for (const answer of answers) {
    // A quorum never queues: a claim that waits at a node has not been granted there.
    if (answer === undefined) count.pending += 1
    else count[answer.state === 'waiting' ? 'absent' : answer.state] += 1
  }
  return count
}
