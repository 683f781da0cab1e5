/** Stepping back for a claim that goes first, and taking a new place behind it. */
import { claimCommentText } from '../protocol/claim-comment.ts'
import type { ThreadClaim } from '../protocol/thread.ts'
import { turnText } from '../protocol/turn-comment.ts'
import type { Deadline } from '../api/deadline.ts'
import { isInDoubt } from '../api/faults.ts'
import type { GithubContext } from './context.ts'
import type { LocalClaim } from './local-claims.ts'

/** Gives up the place of a waiting claim for good. From here on its owner is granted nothing by it, whether or not the edit arrives. */
export async function stepBack(context: GithubContext, localClaim: LocalClaim, deadline: Deadline): Promise<void> {
  if (localClaim.place === 'none') return
  localClaim.record = { ...localClaim.record, left: localClaim.place, turn: undefined }
  localClaim.place = 'none'
  localClaim.firstSince = undefined
  const editedAt = context.environment.now()
  const edited = await context.api.editComment(localClaim.comment, claimCommentText(localClaim.record), deadline)
  // A comment that was deleted is missing from the next reading.
  if (edited !== undefined) Object.assign(localClaim, { updatedAt: edited.comment.updatedAt, editedAt })
}

/** Takes a new place at the end of the queue. If the reply is lost, the next reading shows the place, or the turn is taken again. */
export async function takeTurn(context: GithubContext, localClaim: LocalClaim, deadline: Deadline): Promise<void> {
  const { issue, key, comment, record } = localClaim
  const body = turnText({ key, claim: comment, left: record.left ?? 0, worker: record.runner.worker })
  try {
    const { id, author } = await context.api.createComment(issue, body, deadline)
    context.trustedAuthors.own(author)
    place(context, localClaim, id)
  } catch (error) {
    if (!isInDoubt(error)) throw error
    await deadline.pause(context.settleMs)
  }
}

/** The comment of the takeover that took its place, if one did: places up to there are gone. */
function takeoverOf({ displaced }: ThreadClaim): number {
  return displaced?.comment ?? 0
}

/** Takes the place that a reading shows, if the claim has not given it up. False: it shows none, or the same. */
export function takePlace(context: GithubContext, localClaim: LocalClaim, shown: ThreadClaim): boolean {
  const left = Math.max(localClaim.record.left ?? 0, takeoverOf(shown))
  if (shown.place === undefined || shown.place <= left || shown.place === localClaim.place) return false
  place(context, localClaim, shown.place)
  return true
}

/** A place counts for its owner once two readings have shown it, from a settle time after now. */
function place({ environment }: GithubContext, localClaim: LocalClaim, at: number): void {
  localClaim.place = at
  localClaim.record = { ...localClaim.record, turn: at === localClaim.comment ? undefined : at }
  localClaim.thereAt = environment.now()
  localClaim.firstSince = undefined
}
