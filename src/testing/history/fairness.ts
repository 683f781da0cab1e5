import { standsInTheWay } from '../../core/rule/conflict.ts'
import { Kinds } from './kinds.ts'
import type { Granted } from './overlap.ts'
import { violationName, type Violation } from './violation.ts'

/** Grants of one key out of turn: asked for after another claim of the same priority was known to wait, granted before. */
export function findUnfair(grants: readonly Granted[], toleranceMs: number): Violation[] {
  const violations: Violation[] = []
  const byPriority = new Map<number, Kinds<Granted | undefined>>()
  const inTurn = grants.filter(({ jumps }) => jumps !== true)
  for (const granted of inTurn.toSorted((a, b) => a.grant.fence - b.grant.fence)) {
    const priority = granted.priority ?? 0
    let latest = byPriority.get(priority)
    if (latest === undefined) byPriority.set(priority, (latest = new Kinds()))
    const overtaker = overtakerOf(granted, latest, toleranceMs)
    if (overtaker !== undefined) {
      violations.push({
        kind: 'unfair',
        key: granted.key,
        attempts: [granted.id, overtaker.id],
        message: `${violationName(overtaker)} asked when ${violationName(granted)} was waiting, and was granted first`,
      })
    }
    const kind = latest.of(granted, undefined)
    if ((kind.value?.invokedAt ?? -Infinity) < granted.invokedAt) kind.value = granted
  }
  return violations
}

/** Of the grants with lower fences, the one asked for last, if that was after this claim was known to wait. */
function overtakerOf(granted: Granted, latest: Kinds<Granted | undefined>, toleranceMs: number): Granted | undefined {
  const { queuedAt, disturbed } = granted
  // A process that was stopped may have lost its place and come back to a later one.
  if (queuedAt === undefined || disturbed) return undefined
  for (const { value } of latest.all()) {
    if (value === undefined || !standsInTheWay(granted, value)) continue
    if (value.invokedAt > queuedAt + toleranceMs) return value
  }
  return undefined
}
