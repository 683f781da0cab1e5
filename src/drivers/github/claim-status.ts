/** Finding out where a claim stands, by as many looks at its issue as it takes to be sure. */
import type { ClaimStatus } from '../../core/contract/driver.ts'
import { claimText } from './claim-comment.ts'
import { roundingMs } from './comment-text.ts'
import type { Deadline } from './deadline.ts'
import { timeAt, type GithubContext } from './context.ts'
import { settleDuplicates } from './entering.ts'
import { heartbeat } from './heartbeat.ts'
import { endedBy, expire, leave, refuse, vanish } from './leaving.ts'
import type { LocalClaim } from './local-claims.ts'
import { takeOver, takerOf, turnOut } from './taking-over.ts'
import { ousted, successionOf } from './thread.ts'
import { headOf, settlesInMs, verdictOn, type Look, type Verdict } from './verdict.ts'

/** Where a claim stands. */
export async function stand(
  context: GithubContext,
  localClaim: LocalClaim,
  mayWait: boolean,
  deadline: Deadline,
): Promise<ClaimStatus> {
  const { settleMs } = context
  for (;;) {
    const look = await context.reader.look(localClaim.issue, localClaim.key, deadline)
    await settleDuplicates(context, localClaim, look, deadline)
    const verdict = verdictOn(look, localClaim, settleMs)
    switch (verdict.state) {
      case 'missing': {
        const gone = mustShow(context, localClaim, look)
          ? await goneFrom(context, localClaim, look, deadline)
          : undefined
        if (gone !== undefined) return gone
        await deadline.pause(settleMs)
        continue
      }
      case 'ended':
        return leave(context, localClaim, endedBy(verdict.claim.end), look.thread)
      case 'expired':
        return expire(context, localClaim, look.thread, deadline)
      case 'behind': {
        if (localClaim.held) return stillHeld(context, localClaim, look)
        const status = await wait(context, localClaim, look, verdict, mayWait, deadline)
        if (status !== undefined) return status
        continue
      }
      case 'first': {
        if (localClaim.held) return stillHeld(context, localClaim, look)
        localClaim.firstSince ??= look.begunAt
        const waitMs = settlesInMs(localClaim.firstSince, localClaim.thereAt, look.begunAt, settleMs)
        if (waitMs <= 0) return grant(context, localClaim, look, verdict, deadline)
        await deadline.pause(waitMs)
      }
    }
  }
}

/** A look should show the claim and does not: whether its comment is gone, or the look too old, an edit tells. */
async function goneFrom(
  context: GithubContext,
  localClaim: LocalClaim,
  look: Look,
  deadline: Deadline,
): Promise<ClaimStatus | undefined> {
  if (context.trustedAuthors.isRefused(localClaim.author)) return vanish(context, localClaim, look.thread)
  return heartbeat(context, localClaim, localClaim.record.ttlMs, deadline)
}

/** Whether a look must show the claim, if it is there at all. */
export function mustShow({ settleMs }: GithubContext, localClaim: LocalClaim, look: Look): boolean {
  return look.begunAt >= localClaim.thereAt + settleMs
}

export function heldBy({ comment, after }: LocalClaim, ttlMs: number): ClaimStatus {
  return { state: 'held', fence: comment, ttlMs, ...(after !== undefined && { after }) }
}

/** What is certainly left of a lease: counted from before its last edit was sent, and no more than GitHub's clock says. */
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

/** Somebody stands before the claim. Undefined: what is in its way was dealt with, look again. */
async function wait(
  context: GithubContext,
  localClaim: LocalClaim,
  look: Look,
  { unrenewed, clearing, ahead, againMs }: Extract<Verdict, { state: 'behind' }>,
  mayWait: boolean,
  deadline: Deadline,
): Promise<ClaimStatus | undefined> {
  localClaim.firstSince = undefined
  if (await turnOut(context, localClaim, look, deadline)) return undefined
  if (unrenewed.length > 0) {
    await takeOver(context, takerOf(localClaim), unrenewed, 'expired', 'expired', deadline)
    return undefined
  }
  // A takeover is safe soon after: that is worth staying for.
  const isSoon = againMs <= Math.max(3 * context.settleMs, 2 * roundingMs) && againMs < deadline.leftMs / 2
  if (clearing && isSoon) {
    await deadline.pause(againMs)
    return undefined
  }
  if (!mayWait) return refuse(context, localClaim, look.thread, deadline)
  const askMs = staleInMs(context, localClaim, look, againMs)
  localClaim.waiting = { ahead, againMs: askMs, at: context.environment.now() }
  return { state: 'waiting', ahead, ttlMs: leftMs(context, localClaim), againMs: askMs }
}

/** A claim that may turn out a silent holder asks again when that one has been silent enough. */
function staleInMs(
  { settleMs }: GithubContext,
  { evict, staleMs = 0 }: LocalClaim,
  look: Look,
  againMs: number,
): number {
  const head = headOf(look.thread)
  if (evict !== 'stale' || head === undefined) return againMs
  return Math.max(1, Math.min(againMs, head.updatedAt + staleMs + settleMs + roundingMs - look.dateMs))
}

/** Nobody stands before the claim: it holds from now on, and its comment says so. */
async function grant(
  context: GithubContext,
  localClaim: LocalClaim,
  look: Look,
  { claim }: Extract<Verdict, { state: 'first' }>,
  deadline: Deadline,
): Promise<ClaimStatus> {
  const ttlMs = leftMs(context, localClaim, claim.updatedAt, look.dateMs)
  localClaim.held = true
  localClaim.after = successionOf(look.thread, localClaim.comment)
  localClaim.record = { ...localClaim.record, heldSince: timeAt(context) }
  const editedAt = context.environment.now()
  try {
    const edited = await context.api.editComment(localClaim.comment, claimText(localClaim.record), deadline)
    if (edited === undefined) return vanish(context, localClaim, look.thread)
    Object.assign(localClaim, { updatedAt: edited.comment.updatedAt, editedAt })
  } catch {
    // It holds all the same. The first heartbeat will say so.
  }
  context.markers.putUp(localClaim.issue, localClaim.author, ousted(look.thread, localClaim.comment)?.author)
  context.mirror.put(localClaim.issue, localClaim.record)
  return heldBy(localClaim, ttlMs)
}

function stillHeld(context: GithubContext, localClaim: LocalClaim, look: Look): ClaimStatus {
  const place = look.thread.claims.find(({ comment }) => comment === localClaim.comment)
  localClaim.after ??= successionOf(look.thread, localClaim.comment)
  return heldBy(localClaim, leftMs(context, localClaim, place?.updatedAt, look.dateMs))
}
