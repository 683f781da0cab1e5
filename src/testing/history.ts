/**
 * Checks what clients in several processes did against what a correct lock allows.
 *
 * Fences give the order of grants, so nothing is searched: every check is a sweep. Only what is certain counts: a hold
 * lasts from the return of acquire to the first of release called, local deadline, loss reported, crash. A report is
 * therefore always a true violation, as long as nobody was turned out by force.
 */
import { attemptsOf, type Attempt } from './history/attempt.ts'
import type { HistoryEvent } from './history/event.ts'
import { findUnfair } from './history/fairness.ts'
import { findGaps, findFenceFaults, type FencesOf } from './history/fence-order.ts'
import { findOverlaps, type Granted } from './history/overlap.ts'
import { summarise, type HistorySummary } from './history/summary.ts'
import type { Violation } from './history/violation.ts'

/** What `checkHistory` looks for. */
export interface HistoryOptions {
  /**
   * Whose fences must be in order: those of all claims of a key, or only of those that exclude each other.
   *
   * @default 'all'
   */
  readonly fencesOf?: FencesOf | undefined
  /**
   * Also looks for fences that nobody got: for stores that count one by one and per key.
   *
   * @default false
   */
  readonly gaps?: boolean | undefined
  /**
   * Also looks for grants out of turn: for stores with a queue.
   *
   * @default true
   */
  readonly fair?: boolean | undefined
  /**
   * How much later than a known waiter a claim must have been made to count as overtaking.
   *
   * @default 0
   */
  readonly fairToleranceMs?: number | undefined
}

/** What `checkHistory` found. */
export interface HistoryReport {
  readonly violations: readonly Violation[]
  readonly summary: HistorySummary
}

/**
 * Checks a history, sorted by time as `readHistory` gives it.
 *
 * @example
 * ```ts
 * import { checkHistory, readHistory } from 'leasehold/testing'
 *
 * const { violations, summary } = checkHistory(readHistory(['one.log', 'other.log']))
 * console.log(violations, summary)
 * ```
 */
export function checkHistory(events: readonly HistoryEvent[], options: HistoryOptions = {}): HistoryReport {
  const { fencesOf = 'all', gaps = false, fair = true, fairToleranceMs = 0 } = options
  const attempts = attemptsOf(events)
  const violations: Violation[] = []
  const grantsByKey: Granted[][] = []
  for (const ofKey of byKey(attempts)) {
    const grants = ofKey.filter((attempt): attempt is Granted => attempt.grant !== undefined)
    grantsByKey.push(grants)
    violations.push(...findOverlaps(grants), ...findFenceFaults(grants, fencesOf))
    if (gaps) violations.push(...findGaps(ofKey, grants))
    if (fair) violations.push(...findUnfair(grants, fairToleranceMs))
  }
  return { violations, summary: summarise(attempts, grantsByKey) }
}

function byKey(attempts: readonly Attempt[]): Iterable<Attempt[]> {
  const keys = new Map<string, Attempt[]>()
  for (const attempt of attempts) {
    const ofKey = keys.get(attempt.key)
    if (ofKey === undefined) keys.set(attempt.key, [attempt])
    else ofKey.push(attempt)
  }
  return keys.values()
}
