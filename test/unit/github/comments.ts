import { claimCommentText, type CommentRecord } from '../../../src/drivers/github/protocol/claim-comment.ts'
import type { Comment } from '../../../src/drivers/github/protocol/comment-text.ts'
import { takeoverText, type TakeoverRecord } from '../../../src/drivers/github/protocol/takeover-comment.ts'
import { readThread } from '../../../src/drivers/github/protocol/thread.ts'
import type { IssueReading } from '../../../src/drivers/github/protocol/verdict.ts'

export const key = 'default/issue:1'

/** Seconds of GitHub's clock in which these stories happen. */
export const seconds = (count: number): number => 1_800_000_000_000 + count * 1000

export function record(id: string, more: Partial<CommentRecord> = {}): CommentRecord {
  const runner = { worker: `worker ${id}`, node: `node ${id}` }
  const shape = { ttlMs: 60_000, mode: 'exclusive', priority: 0 } as const
  return { id, key, ...shape, runner, claimedAt: seconds(0), heartbeatAt: seconds(0), renewals: 0, ...more }
}

export function comment(id: number, body: string, updatedAt = seconds(0)): Comment {
  return { id, issue: 1, author: 'somebody', body, createdAt: seconds(0), updatedAt }
}

export function claim(id: number, more: Partial<CommentRecord> = {}, updatedAt?: number): Comment {
  return comment(id, claimCommentText(record(`claim-${id}`, more)), updatedAt)
}

export function takeover(
  id: number,
  ended: number,
  more: Partial<TakeoverRecord> = {},
  createdAt = seconds(0),
): Comment {
  const ends = [{ comment: ended, worker: 'x', held: true }]
  const body = takeoverText({ key, by: 'taker', cause: 'expired', reason: 'expired', at: createdAt, ends, ...more })
  return { ...comment(id, body, createdAt), createdAt }
}

/** A read of these comments at this time of GitHub's clock. */
export function read(comments: readonly Comment[], dateMs: number, more: Partial<IssueReading> = {}): IssueReading {
  const thread = readThread(comments, key, 300_000)
  return { thread, dateMs, begunAt: dateMs, begunDateMs: dateMs, seenAt: new Map(), ...more }
}
