/** Finding the status of a claim, by as many readings of its issue as it takes to be certain. */
import type { ClaimStatus } from '../../../core/contract/driver.ts'
import { claimCommentText } from '../protocol/claim-comment.ts'
import { roundingMs } from '../protocol/comment-text.ts'
import type { Deadline } from '../api/deadline.ts'
import { timeAt, type GithubContext } from './context.ts'
import { settleDuplicates } from './enqueuing.ts'
import { heartbeat } from './heartbeat.ts'
import { complete, convertReplaced, endReplaced, endedBy, expire, leave, refuse, endMissing } from './leaving.ts'
import { fenceOfLocal, knownOf, lastingMs, type LocalClaim } from './local-claims.ts'
import { stepBack, takePlace, takeTurn } from './turns.ts'
import { takeOver, takeoverBy, evictAhead } from './takeover.ts'
import { evictedBefore, successionOf } from '../protocol/thread.ts'
import { headOf, settlesInMs, verdictOn, type IssueReading, type QueueVerdict } from '../protocol/verdict.ts'

/** The status of a claim. Grants it if two readings show no claim before it. */
export async function resolveStatus(
  context: GithubContext,
  localClaim: LocalClaim,
  mayWait: boolean,
  deadline: Deadline,
): Promise<ClaimStatus> {
  const { settleMs } = context
  for (;;) {
    const read = await context.reader.read(localClaim.issue, localClaim.key, deadline)
    await settleDuplicates(context, localClaim, read, deadline)
    const verdict = verdictOn(read, knownOf(localClaim), settleMs)
    switch (verdict.state) {
      case 'missing': {
        const gone = mustShow(context, localClaim, read)
          ? await goneFrom(context, localClaim, read, deadline)
          : undefined
        if (gone !== undefined) return gone
        await deadline.pause(settleMs)
        continue
      }
      case 'ended':
        return leave(context, localClaim, endedBy(verdict.claim.end), read.thread)
      case 'expired':
        return expire(context, localClaim, read.thread, deadline)
      case 'deadlock': {
        await complete(context, localClaim, 'gave up', deadline)
        return leave(context, localClaim, { state: 'absent', reason: 'deadlock' }, read.thread)
      }
      case 'overtaken': {
        await stepBack(context, localClaim, deadline)
        continue
      }
      case 'moved': {
        if (takePlace(context, localClaim, verdict.claim)) continue
        // The comment of its turn was deleted.
        if (mustShow(context, localClaim, read)) await stepBack(context, localClaim, deadline)
        else await deadline.pause(settleMs)
        continue
      }
      case 'out of line': {
        if (takePlace(context, localClaim, verdict.shown)) continue
        if (verdict.mayEnter) {
          await takeTurn(context, localClaim, deadline)
          continue
        }
        if (!mayWait) return refuse(context, localClaim, read.thread, deadline)
        return waitingFor(context, localClaim, verdict)
      }
      case 'behind': {
        const status = await wait(context, localClaim, read, verdict, mayWait, deadline)
        if (status !== undefined) return status
        continue
      }
      case 'first': {
        if (localClaim.held) return stillHeld(context, localClaim, read)
        localClaim.firstSince ??= read.begunAt
        const waitMs = settlesInMs(localClaim.firstSince, localClaim.thereAt, read.begunAt, settleMs)
        if (waitMs <= 0) return grant(context, localClaim, read, verdict, deadline)
        await deadline.pause(waitMs)
      }
    }
  }
}

/** The reading lacks the claim although it should show it: an edit tells whether its comment still exists. */
async function goneFrom(
  context: GithubContext,
  localClaim: LocalClaim,
  read: IssueReading,
  deadline: Deadline,
): Promise<ClaimStatus | undefined> {
  if (context.trustedAuthors.isRefused(localClaim.author)) return endMissing(context, localClaim, read.thread)
  return heartbeat(context, localClaim, localClaim.record.ttlMs, deadline)
}

/** Whether a reading is recent enough to show the claim, if its comment exists. */
export function mustShow({ settleMs }: GithubContext, localClaim: LocalClaim, read: IssueReading): boolean {
  return read.begunAt >= localClaim.thereAt + settleMs
}

/** The status of a held claim. */
export function heldBy(localClaim: LocalClaim, ttlMs: number): ClaimStatus {
  const { after } = localClaim
  return { state: 'held', fence: fenceOfLocal(localClaim), ttlMs, ...(after !== undefined && { after }) }
}

/** The time that a lease certainly has left: from when its last edit was sent, and at most what GitHub's clock says. */
export function leftMs(
  context: GithubContext,
  localClaim: LocalClaim,
  updatedAt = localClaim.updatedAt,
  dateMs = timeAt(context),
): number {
  const { ttlMs } = localClaim.record
  const ownMs = localClaim.editedAt + ttlMs - context.environment.now()
  return Math.max(0, Math.min(ownMs, updatedAt + ttlMs + roundingMs - dateMs))
}

/** Waits behind other claims. Undefined: something in the way was removed, read again. */
async function wait(
  context: GithubContext,
  localClaim: LocalClaim,
  read: IssueReading,
  { unrenewed, cleanup, ahead, againMs }: Extract<QueueVerdict, { state: 'behind' }>,
  mayWait: boolean,
  deadline: Deadline,
): Promise<ClaimStatus | undefined> {
  localClaim.firstSince = undefined
  if (await evictAhead(context, localClaim, read, deadline)) return undefined
  if (unrenewed.length > 0) {
    await takeOver(context, takeoverBy(localClaim), unrenewed, 'expired', 'expired', deadline)
    return undefined
  }
  // A takeover will be safe soon: wait for that here.
  const isSoon = againMs <= Math.max(3 * context.settleMs, 2 * roundingMs) && againMs < deadline.leftMs / 2
  if (cleanup && isSoon) {
    await deadline.pause(againMs)
    return undefined
  }
  if (!mayWait) return refuse(context, localClaim, read.thread, deadline)
  const askMs = staleInMs(context, localClaim, read, againMs)
  return waitingFor(context, localClaim, { ahead, againMs: askMs })
}

function waitingFor(
  context: GithubContext,
  localClaim: LocalClaim,
  { ahead, againMs }: { readonly ahead: number; readonly againMs: number },
): ClaimStatus {
  localClaim.waiting = { ahead, againMs, at: context.environment.now() }
  return { state: 'waiting', ahead, ttlMs: leftMs(context, localClaim), againMs }
}

/** When to read again: for a claim with `evict: stale`, no later than when the holder has been silent for long enough. */
function staleInMs(
  { settleMs }: GithubContext,
  { evict, staleMs = 0 }: LocalClaim,
  read: IssueReading,
  againMs: number,
): number {
  const head = headOf(read.thread)
  if (evict !== 'stale' || head === undefined) return againMs
  return Math.max(1, Math.min(againMs, head.updatedAt + staleMs + settleMs + roundingMs - read.dateMs))
}

/** Grants the claim, since no claim is before it, and writes that into its comment. */
async function grant(
  context: GithubContext,
  localClaim: LocalClaim,
  read: IssueReading,
  { claim }: Extract<QueueVerdict, { state: 'first' }>,
  deadline: Deadline,
): Promise<ClaimStatus> {
  const ttlMs = leftMs(context, localClaim, claim.updatedAt, read.dateMs)
  const editedAt = context.environment.now()
  const replaced = convertReplaced(context, localClaim, read)
  localClaim.held = true
  localClaim.after = successionOf(read.thread, fenceOfLocal(localClaim))
  const lastsMs = lastingMs(localClaim, localClaim.record.ttlMs, editedAt)
  localClaim.record = { ...localClaim.record, ttlMs: lastsMs, heldSince: timeAt(context) }
  let isWritten = false
  try {
    const edited = await context.api.editComment(localClaim.comment, claimCommentText(localClaim.record), deadline)
    if (edited === undefined) {
      if (replaced !== undefined) replaced.isConverted = false
      return endMissing(context, localClaim, read.thread)
    }
    Object.assign(localClaim, { updatedAt: edited.comment.updatedAt, editedAt })
    isWritten = true
  } catch {
    // The claim is held all the same: the first heartbeat will write it.
  }
  context.markers.putUp(
    localClaim.issue,
    localClaim.author,
    evictedBefore(read.thread, fenceOfLocal(localClaim))?.author,
  )
  context.mirror.put(localClaim)
  await endReplaced(context, localClaim, read, isWritten, deadline)
  return heldBy(localClaim, ttlMs)
}

function stillHeld(context: GithubContext, localClaim: LocalClaim, read: IssueReading): ClaimStatus {
  const place = read.thread.claims.find(({ comment }) => comment === localClaim.comment)
  localClaim.after ??= successionOf(read.thread, fenceOfLocal(localClaim))
  return heldBy(localClaim, leftMs(context, localClaim, place?.updatedAt, read.dateMs))
}
