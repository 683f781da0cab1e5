import type { CommentRecord } from './protocol/claim-comment.ts'
import type { Deadline } from './api/deadline.ts'
import { timeAt, type GithubContext } from './queue/context.ts'
import { heldSince } from './protocol/listing.ts'
import { runnerOf } from './protocol/published-runner.ts'
import { fenceAt } from './protocol/thread.ts'
import { headOf, hasExpired } from './protocol/verdict.ts'

/** Whether an issue is locked, by whom and since when, with the metadata of its holder. */
export interface IssueStatus {
  readonly locked: boolean
  /** The worker's id: `worker_id` of its claim. */
  readonly by?: string
  /** The node's id: `node_id` of its claim. */
  readonly node?: string
  /** The account that wrote the claim, which is assigned to the issue unless `assign` is false. The assignee decides nothing. */
  readonly assignee?: string
  /** Pass it with every write. Not from a mirror. */
  readonly fence?: number
  readonly since?: Date
  readonly metadata?: Readonly<Record<string, unknown>>
  /** The source of this status. A mirror may be wrong. */
  readonly from: 'mirror' | 'github'
}

/** The status of an issue, in whichever namespace it is locked. @internal */
export async function issueStatusOf(context: GithubContext, issue: number, deadline: Deadline): Promise<IssueStatus> {
  const mirrored = await context.mirror.read(issue)
  if (mirrored?.heldSince !== undefined && mirrored.completion === undefined && isFresh(context, mirrored)) {
    return lockedBy(mirrored, mirrored.heldSince, {
      from: 'mirror',
      ...(mirrored.assignee !== undefined && { assignee: mirrored.assignee }),
    })
  }
  const { api, reader } = context
  const { items, dateMs } = await api.comments(issue, reader.sinceMs, deadline)
  const comments = await reader.counted(items, deadline)
  for (const key of reader.keysIn(comments)) {
    const thread = reader.threadOf(comments, key)
    const head = headOf(thread)
    if (head?.record === undefined || hasExpired(head, dateMs)) continue
    const found = { from: 'github', assignee: head.author, fence: fenceAt(head) } as const
    return lockedBy(head.record, heldSince(thread, head), found)
  }
  return { locked: false, from: 'github' }
}

/** Whether a mirrored claim has not expired: a mirror may ignore the ttl and keep it for ever. */
function isFresh(context: GithubContext, { heartbeatAt, ttlMs }: CommentRecord): boolean {
  return !hasExpired({ updatedAt: heartbeatAt, ttlMs }, timeAt(context))
}

function lockedBy(
  record: CommentRecord,
  since: number,
  found: Pick<IssueStatus, 'from' | 'assignee' | 'fence'>,
): IssueStatus {
  const { id, client, metadata } = runnerOf(record.runner, record.task)
  const known = { locked: true, by: id, node: client, since: new Date(since), ...found }
  return metadata === undefined ? known : { ...known, metadata }
}
