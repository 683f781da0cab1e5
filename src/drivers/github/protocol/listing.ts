import type { ListedClaim } from '../../../core/contract/driver.ts'
import { claimIn } from './claim-comment.ts'
import { roundingMs, type Comment } from './comment-text.ts'
import { runnerOf } from './published-runner.ts'
import type { Thread, ThreadClaim } from './thread.ts'
import { headOf } from './verdict.ts'

/** The claims of a thread for a listing: the holder, then the waiters in queue order. */
export function listedClaims(thread: Thread): ListedClaim[] {
  const head = headOf(thread)
  return thread.claims.flatMap((claim) => {
    if (claim.end !== undefined || claim.record === undefined) return []
    return [listed(claim, claim.record, claim === head ? heldSince(thread, claim) : undefined)]
  })
}

/** When the head of the queue was granted: by its comment, else when the last claim before it ended. */
export function heldSince({ claims }: Thread, head: ThreadClaim): number {
  const ends = claims.flatMap(({ comment, end }) => (comment < head.comment && end !== undefined ? [end.at] : []))
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
  { comment, createdAt, updatedAt, ttlMs }: ThreadClaim,
  record: NonNullable<ThreadClaim['record']>,
  acquiredAt: number | undefined,
): ListedClaim {
  return {
    id: record.id,
    state: acquiredAt === undefined ? 'waiting' : 'held',
    mode: 'exclusive',
    priority: 0,
    fence: acquiredAt === undefined ? 0 : comment,
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
