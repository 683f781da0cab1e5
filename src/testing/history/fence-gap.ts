import type { Attempt } from './attempt.ts'
import type { Granted } from './overlap.ts'
import type { Violation } from './violation.ts'

/**
 * For stores that count fences one by one and per key: every missing fence was minted for an acquire whose outcome nobody
 * saw, or which gave up just as it was granted.
 */
export function findGaps(attempts: readonly Attempt[], grants: readonly Granted[]): Violation[] {
  const unseen = attempts
    .filter(({ grant }) => grant === undefined)
    .map(({ invokedAt }) => invokedAt)
    .toSorted((one, other) => one - other)
  const violations: Violation[] = []
  let missing = 0
  let accountable = 0
  let last: Granted | undefined
  for (const granted of grants.toSorted((one, other) => one.grant.fence - other.grant.fence)) {
    while (accountable < unseen.length && (unseen[accountable] ?? Infinity) < granted.grant.returnedAt) accountable += 1
    if (last !== undefined) missing += Math.max(0, granted.grant.fence - last.grant.fence - 1)
    if (missing > accountable) {
      violations.push({
        kind: 'fence-gap',
        key: granted.key,
        attempts: [last?.id ?? granted.id, granted.id],
        message: `${missing} fences are missing up to ${granted.grant.fence}, and ${accountable} acquires ended unseen`,
      })
      missing = accountable
    }
    last = granted
  }
  return violations
}
