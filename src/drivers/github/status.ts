import type { ClaimRecord } from './claim-comment.ts'
import type { Deadline } from './deadline.ts'
import { timeAt, type GithubContext } from './context.ts'
import { heldSince } from './listing.ts'
import { runnerOf } from './published-runner.ts'
import { headOf, isOver } from './verdict.ts'

/** Whether an issue is locked, by whom and since when, and what its holder says of itself. */
export interface IssueStatus {
  readonly locked: boolean
  readonly by?: string
  readonly since?: Date
  readonly metadata?: Readonly<Record<string, unknown>>
  /** Where this comes from. A mirror may be wrong. */
  readonly from: 'mirror' | 'github'
}

/** The status of an issue, whichever namespace it is locked in. @internal */
export async function statusOf(context: GithubContext, issue: number, deadline: Deadline): Promise<IssueStatus> {
  const mirrored = await context.mirror.read(issue)
  if (mirrored?.heldSince !== undefined && mirrored.completion === undefined && isFresh(context, mirrored)) {
    return lockedBy(mirrored, mirrored.heldSince, 'mirror')
  }
  const { api, reader } = context
  const { items, dateMs } = await api.comments(issue, reader.sinceMs, deadline)
  const comments = await reader.counted(items, deadline)
  for (const key of reader.keysIn(comments)) {
    const thread = reader.threadOf(comments, key)
    const head = headOf(thread)
    if (head?.record === undefined || isOver(head, dateMs)) continue
    return lockedBy(head.record, heldSince(thread, head), 'github')
  }
  return { locked: false, from: 'github' }
}

/** A mirror that does not forget by itself would tell of the dead for ever. */
function isFresh(context: GithubContext, { heartbeatAt, ttlMs }: ClaimRecord): boolean {
  return !isOver({ updatedAt: heartbeatAt, ttlMs }, timeAt(context))
}

function lockedBy(record: ClaimRecord, since: number, from: IssueStatus['from']): IssueStatus {
  const { id, metadata } = runnerOf(record.runner, record.task)
  return { locked: true, by: id, since: new Date(since), ...(metadata !== undefined && { metadata }), from }
}
