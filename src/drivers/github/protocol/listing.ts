import type { ListedClaim } from '../../../core/contract/driver.ts'
import { claimIn } from './claim-comment.ts'
import { roundingMs, type Comment } from './comment-text.ts'
import { runnerOf } from './published-runner.ts'
import { outranks } from './precedence.ts'
import { fenceAt, type Thread, type ThreadClaim } from './thread.ts'
import { holdersOf } from './verdict.ts'

/** The claims of a thread for a listing: the holders, then the waiters in the order in which they go first. */
export function listedClaims(thread: Thread): ListedClaim[] {
  const holders = holdersOf(thread)
  const waiters = thread.claims
    .filter((claim) => claim.end === undefined && !holders.includes(claim))
    .toSorted((first, second) => (outranks(first, second) ? -1 : 1))
  return [...holders, ...waiters].flatMap((claim) => {
    if (claim.record === undefined) return []
    return [listed(claim, claim.record, holders.includes(claim) ? heldSince(thread, claim) : undefined)]
  })
}

/** When the head of the queue was granted: by its comment, else when the last claim before it ended. */
export function heldSince({ claims }: Thread, head: ThreadClaim): number {
  const ends = claims.flatMap(({ place, comment, end }) =>
    fenceAt({ place, comment }) < fenceAt(head) && end !== undefined ? [end.at] : [],
  )
  return head.record?.heldSince ?? ends.reduce((last, end) => Math.max(last, end), head.createdAt)
}

/** The comments of many issues by key: for each key, those of the lowest issue that has a claim of it. */
export function commentsByKey(comments: readonly Comment[]): Map<string, readonly Comment[]> {
  const byIssue = new Map<number, Comment[]>()
  for (const comment of comments) {
    const others = byIssue.get(comment.issue)
    if (others === undefined) byIssue.set(comment.issue, [comment])
    else others.push(comment)
  }
  const byKey = new Map<string, readonly Comment[]>()
  for (const [, own] of [...byIssue].toSorted(([first], [second]) => first - second)) {
    for (const { body } of own) {
      const key = claimIn(body)?.key
      if (key !== undefined && !byKey.has(key)) byKey.set(key, own)
    }
  }
  return byKey
}

function listed(
  { comment, place, mode, priority, replaced, createdAt, updatedAt, ttlMs }: ThreadClaim,
  record: NonNullable<ThreadClaim['record']>,
  acquiredAt: number | undefined,
): ListedClaim {
  return {
    id: record.id,
    state: acquiredAt === undefined ? 'waiting' : 'held',
    mode,
    priority,
    fence: acquiredAt === undefined ? 0 : fenceAt({ place, comment }),
    converting: acquiredAt === undefined && replaced !== undefined,
    ttlMs,
    graceMs: 0,
    enteredAt: createdAt,
    acquiredAt: acquiredAt ?? 0,
    lastHeartbeat: updatedAt,
    renewalCount: record.renewals,
    expiresAt: updatedAt + ttlMs + roundingMs,
    runner: runnerOf(record.runner, record.task),
  }
}
