/** Creating the comment of a claim, effectively once, and finding it again. */
import type { Claim } from '../../../core/contract/driver.ts'
import { claimCommentText, type CommentRecord, type ReplacedClaim } from '../protocol/claim-comment.ts'
import { roundingMs } from '../protocol/comment-text.ts'
import type { Deadline } from '../api/deadline.ts'
import { timeAt, type GithubContext } from './context.ts'
import { isInDoubt } from '../api/faults.ts'
import { publishedRunner } from '../protocol/published-runner.ts'
import type { LocalClaim } from './local-claims.ts'
import { taskInfoIn } from '../protocol/task-info.ts'
import { isSilent, type IssueReading } from '../protocol/verdict.ts'

/** How often a comment is sent before the outcome is reported as unknown. */
const sendsMax = 3

/** Puts the claim's comment at the end of the queue. */
export async function enqueue(
  context: GithubContext,
  issue: number,
  claim: Claim,
  replaced: ReplacedClaim | undefined,
  deadline: Deadline,
): Promise<LocalClaim> {
  const { environment, api, localClaims } = context
  const at = timeAt(context)
  const record: CommentRecord = {
    id: claim.id,
    key: claim.key,
    ttlMs: claim.ttlMs,
    mode: claim.mode,
    priority: claim.priority,
    ...(replaced !== undefined && { replaces: replaced }),
    runner: publishedRunner(claim, context.publish, context),
    task: taskInfoIn(claim.runner.metadata?.['taskInfo']),
    claimedAt: at,
    heartbeatAt: at,
    renewals: 0,
  }
  const editedAt = environment.now()
  for (let sends = 1; ; sends += 1) {
    try {
      const { id, author, updatedAt } = await api.createComment(issue, claimCommentText(record), deadline)
      context.trustedAuthors.own(author)
      return track(context, claim, { issue, comment: id, place: id, author, updatedAt, record, editedAt, held: false })
    } catch (error) {
      if (!isInDoubt(error)) throw error
      localClaims.doubt(claim.id, environment.now())
      if (sends === sendsMax) throw error
    }
    // The comment may exist: read before sending it again. If both arrive, the one with the lower id is the claim.
    await deadline.pause(context.settleMs)
    const found = await find(context, issue, claim, deadline)
    if (found !== undefined) return found
  }
}

/** Finds a claim that another process made, or whose reply was lost. */
export async function find(
  context: GithubContext,
  issue: number,
  claim: Pick<Claim, 'id' | 'key'> & Partial<Claim>,
  deadline: Deadline,
): Promise<LocalClaim | undefined> {
  const read = await context.reader.read(issue, claim.key, deadline)
  const place = read.thread.claims.find(({ record }) => record?.id === claim.id)
  if (place?.record === undefined || place.end?.how === 'completed') return undefined
  const { comment, record, updatedAt, author } = place
  const { place: at = 'none' } = place
  // This process does not know when the comment was edited: assume the earliest time that the reading allows.
  const editedAt = read.begunAt - (read.dateMs + roundingMs - updatedAt)
  return track(context, claim, {
    issue,
    comment,
    place: at,
    author,
    updatedAt,
    record,
    editedAt,
    held: record.heldSince !== undefined,
  })
}

/** Whether a claim that does not wait would be refused: then no comment is written. */
export async function isHopeless(
  context: GithubContext,
  issue: number,
  claim: Claim,
  deadline: Deadline,
): Promise<boolean> {
  // What a conversion waits for, its verdict says.
  if (claim.evict === 'all' || claim.replaces !== undefined) return false
  const read = await context.reader.read(issue, claim.key, deadline)
  const open = read.thread.claims.filter(
    ({ end, mode }) => end === undefined && (mode === 'exclusive' || claim.mode === 'exclusive'),
  )
  if (open.every((earlier) => isSilent(earlier, read, earlier.ttlMs, context.settleMs))) return false
  const [head] = open
  return claim.evict !== 'stale' || head === undefined || !isSilent(head, read, claim.staleMs ?? 0, context.settleMs)
}

/**
 * If several comments have the same claim, the one with the lowest id is the claim, whichever reply arrived. Deletes the
 * others, which are ignored anyway, for the sake of people.
 */
export async function settleDuplicates(
  { api }: GithubContext,
  localClaim: LocalClaim,
  read: IssueReading,
  deadline: Deadline,
): Promise<void> {
  const { claims, duplicates } = read.thread
  const own = claims.find(({ record }) => record?.id === localClaim.id)
  if (own?.record !== undefined && own.comment < localClaim.comment) {
    const { comment, place = 'none', record, updatedAt, author } = own
    Object.assign(localClaim, { comment, place, record, updatedAt, author, held: record.heldSince !== undefined })
  }
  for (const { id, comment } of duplicates) {
    if (id === localClaim.id && comment > localClaim.comment) await api.deleteComment(comment, deadline).catch(() => {})
  }
}

/** Adds a claim to those that this process renews. */
function track(
  { localClaims, environment }: GithubContext,
  claim: Pick<Claim, 'id' | 'key'> & Partial<Claim>,
  known: Pick<LocalClaim, 'issue' | 'comment' | 'place' | 'author' | 'updatedAt' | 'record' | 'editedAt' | 'held'>,
): LocalClaim {
  return localClaims.add({
    id: claim.id,
    key: claim.key,
    evict: claim.evict,
    staleMs: claim.staleMs,
    thereAt: environment.now(),
    firstSince: undefined,
    isConverted: false,
    replacedUntil: -Infinity,
    after: undefined,
    waiting: undefined,
    ...known,
  })
}
