import type { CommentRecord } from './protocol/claim-comment.ts'
import type { Deadline } from './api/deadline.ts'
import { timeAt, type GithubContext } from './queue/context.ts'
import { heldSince } from './protocol/listing.ts'
import { runnerOf } from './protocol/published-runner.ts'
import { headOf, hasExpired } from './protocol/verdict.ts'

/** Whether an issue is locked, by whom and since when, with the metadata of its holder. */
export interface IssueStatus {
  readonly locked: boolean
  readonly by?: string
  readonly since?: Date
  readonly metadata?: Readonly<Record<string, unknown>>
  /** The source of this status. A mirror may be wrong. */
  readonly from: 'mirror' | 'github'
}

/** The status of an issue, in whichever namespace it is locked. @internal */
export async function issueStatusOf(context: GithubContext, issue: number, deadline: Deadline): Promise<IssueStatus> {
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
    if (head?.record === undefined || hasExpired(head, dateMs)) continue
    return lockedBy(head.record, heldSince(thread, head), 'github')
  }
  return { locked: false, from: 'github' }
}

/** Whether a mirrored claim has not expired: a mirror may ignore the ttl and keep it for ever. */
function isFresh(context: GithubContext, { heartbeatAt, ttlMs }: CommentRecord): boolean {
  return !hasExpired({ updatedAt: heartbeatAt, ttlMs }, timeAt(context))
}

function lockedBy(record: CommentRecord, since: number, from: IssueStatus['from']): IssueStatus {
  const { id, metadata } = runnerOf(record.runner, record.task)
  return { locked: true, by: id, since: new Date(since), ...(metadata !== undefined && { metadata }), from }
}
