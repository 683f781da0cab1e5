/**
 * Claims, renewals, releases and evictions, each carried out as reads and writes of one issue's comments.
 *
 * No step depends on GitHub refusing a write because another client was first: comments are only added, each is edited by its
 * owner alone, and `thread.ts` and `verdict.ts` derive what they mean. Why that is safe: decision 060.
 */
import type { Claim, Request, ClaimStatus } from '../../../core/contract/driver.ts'
import { LeaseholdError } from '../../../core/errors.ts'
import type { Deadline } from '../api/deadline.ts'
import type { GithubContext } from './context.ts'
import { settleDuplicates, enqueue, find, isHopeless } from './enqueuing.ts'
import { heartbeat } from './heartbeat.ts'
import { complete, endedBy, expire, leave, unknownClaim, endMissing } from './leaving.ts'
import type { ReplacedClaim } from '../protocol/claim-comment.ts'
import { fenceOfLocal, knownOf, lastingMs, type LocalClaim } from './local-claims.ts'
import { heldBy, leftMs, mustShow, resolveStatus } from './claim-status.ts'
import { takeOver } from './takeover.ts'
import { fenceAt } from '../protocol/thread.ts'
import { holdersOf, verdictOn } from '../protocol/verdict.ts'

type Renewal = Extract<Request, { op: 'renew' }>
type Release = Extract<Request, { op: 'release' }>
type Eviction = Extract<Request, { op: 'evict' }>

/** Carries out a request on the issue with the queue of its key. */
export function carryOutOn(
  context: GithubContext,
  issue: number,
  request: Request,
  deadline: Deadline,
): Promise<ClaimStatus> {
  const elsewhere = claimedElsewhere(context, request)
  if (elsewhere !== undefined) return Promise.resolve(elsewhere)
  switch (request.op) {
    case 'claim':
      return claimOn(context, issue, request.claim, deadline)
    case 'renew':
      return renewOn(context, issue, request, deadline)
    case 'release':
      return releaseOn(context, issue, request, deadline)
    case 'withdraw':
      return withdrawOn(context, issue, request, deadline)
    case 'evict':
      return evictOn(context, issue, request, deadline)
  }
}

/** The answer to a request whose id belongs to a claim of another key; undefined for any other request. */
function claimedElsewhere({ localClaims }: GithubContext, request: Request): ClaimStatus | undefined {
  if (request.op === 'evict') return undefined
  const { key, id } = request.op === 'claim' ? request.claim : request
  const localClaim = localClaims.find(id)
  if (localClaim === undefined || localClaim.key === key) return undefined
  return request.op === 'claim' ? { state: 'absent', reason: 'refused' } : unknownClaim
}

async function claimOn(context: GithubContext, issue: number, claim: Claim, deadline: Deadline): Promise<ClaimStatus> {
  const ended = context.localClaims.endOf(claim.id)
  if (ended !== undefined) return ended
  const known = context.localClaims.find(claim.id)
  if (known !== undefined) return resolveStatus(context, known, claim.wait, deadline)
  if (!claim.wait && (await isHopeless(context, issue, claim, deadline))) {
    return context.localClaims.end(claim.id, { state: 'absent', reason: 'refused' })
  }
  const replaced = claim.replaces === undefined ? undefined : await leaseOf(context, issue, claim, deadline)
  if (replaced === undefined && claim.replaces !== undefined) return context.localClaims.end(claim.id, unknownClaim)
  return resolveStatus(context, await enqueue(context, issue, claim, replaced, deadline), claim.wait, deadline)
}

/** The held claim that a conversion replaces; undefined if there is none. */
async function leaseOf(
  context: GithubContext,
  issue: number,
  { key, replaces: id = '' }: Claim,
  deadline: Deadline,
): Promise<ReplacedClaim | undefined> {
  const held = context.localClaims.find(id) ?? (await find(context, issue, { id, key }, deadline))
  if (held?.held !== true) return undefined
  const { replaces } = held.record
  return { claim: id, place: Math.min(fenceOfLocal(held), replaces?.place ?? Infinity) }
}

/** Ends a waiting claim. A claim that is held by now stays, and is answered as such. */
async function withdrawOn(
  context: GithubContext,
  issue: number,
  request: Extract<Request, { op: 'withdraw' }>,
  deadline: Deadline,
): Promise<ClaimStatus> {
  const { id, key } = request
  const known = context.localClaims.find(id) ?? (await find(context, issue, { id, key }, deadline))
  // Promoted by now, if nothing is before it any more.
  const status = known === undefined ? undefined : await resolveStatus(context, known, true, deadline)
  if (status !== undefined && status.state !== 'waiting') return status
  return releaseOn(context, issue, { op: 'release', id, key }, deadline)
}

async function renewOn(
  context: GithubContext,
  issue: number,
  request: Renewal,
  deadline: Deadline,
): Promise<ClaimStatus> {
  const { localClaims, rateBudget, environment } = context
  const endedBefore = localClaims.endOf(request.id)
  if (endedBefore !== undefined) return endedBefore
  const known = localClaims.find(request.id)
  const localClaim = known ?? (await find(context, issue, request, deadline))
  if (localClaim === undefined) return unknownClaim
  // If another process renewed the claim before, its comment does not tell whether a takeover ended it: read that.
  const ended = known === undefined ? await takenOver(context, localClaim, deadline) : undefined
  if (ended !== undefined) return ended
  const { fenceFloor = 0, ttlMs } = request
  if (fenceFloor > fenceOfLocal(localClaim)) return unsupported('a fence above the id of its comment')
  if (localClaim.isConverted) return unknownClaim
  const now = environment.now()
  const everyMs = localClaim.held
    ? rateBudget.editEveryMs(now, ttlMs, localClaims.size)
    : rateBudget.waiterEditEveryMs(now, ttlMs, localClaims.size)
  const isDue = lastingMs(localClaim, ttlMs, now) !== localClaim.record.ttlMs || now - localClaim.editedAt >= everyMs
  const gone = isDue ? await heartbeat(context, localClaim, ttlMs, deadline) : undefined
  if (gone !== undefined) return gone
  if (!localClaim.held)
    return isDue ? resolveStatus(context, localClaim, true, deadline) : resolveOrRest(context, localClaim, deadline)
  // The heartbeat is stretched: answer what is left of the lease.
  if (!isDue) return heldBy(localClaim, Math.min(ttlMs, leftMs(context, localClaim)))
  const turnedOut = await takenOver(context, localClaim, deadline)
  if (turnedOut !== undefined) return turnedOut
  // It was granted a conversion meanwhile.
  if (localClaim.isConverted) return unknownClaim
  context.mirror.put(localClaim)
  return heldBy(localClaim, ttlMs)
}

async function releaseOn(
  context: GithubContext,
  issue: number,
  { id, key }: Release,
  deadline: Deadline,
): Promise<ClaimStatus> {
  const { localClaims, settleMs } = context
  const ended = localClaims.endOf(id)
  if (ended !== undefined) return ended
  // If the comment was sent without a reply, wait until a reading must show it.
  const doubtMs = localClaims.doubtSince(id) + settleMs - context.environment.now()
  if (doubtMs > 0) await deadline.pause(doubtMs)
  const localClaim = localClaims.find(id) ?? (await find(context, issue, { id, key }, deadline))
  if (localClaim === undefined) return localClaims.end(id, unknownClaim)
  const read = await context.reader.read(issue, key, deadline)
  await settleDuplicates(context, localClaim, read, deadline)
  const verdict = verdictOn(read, knownOf(localClaim), settleMs)
  if (verdict.state === 'ended') return leave(context, localClaim, endedBy(verdict.claim.end), read.thread)
  if (verdict.state === 'expired') return expire(context, localClaim, read.thread, deadline)
  const result = context.results.get(fenceOfLocal(localClaim)) ?? (localClaim.held ? 'released' : 'gave up')
  const wasThere = await complete(context, localClaim, result, deadline)
  // If a reading that is recent enough does not show the claim, its comment was deleted or its author lost the right to
  // write. A holder is told so; a waiter only that the claim is unknown.
  if (verdict.state === 'missing' && mustShow(context, localClaim, read)) {
    const isNotFound = !wasThere || context.trustedAuthors.isRefused(localClaim.author)
    if (isNotFound)
      return localClaim.held
        ? endMissing(context, localClaim, read.thread)
        : leave(context, localClaim, unknownClaim, read.thread)
  }
  return leave(context, localClaim, { state: 'absent', reason: 'released' }, read.thread)
}

async function evictOn(
  context: GithubContext,
  issue: number,
  { key, fence, reason }: Eviction,
  deadline: Deadline,
): Promise<ClaimStatus> {
  for (;;) {
    const { thread } = await context.reader.read(issue, key, deadline)
    const claim = thread.claims.find((each) => fenceAt(each) === fence)
    if (claim?.end?.how === 'taken over' && claim.end.cause === 'evicted' && claim.end.reason === reason) {
      return { state: 'absent', reason: 'evicted', detail: reason }
    }
    const holder = holdersOf(thread).find((each) => fenceAt(each) === fence)
    if (holder === undefined) return unknownClaim
    await takeOver(
      context,
      { issue, key, worker: context.workerId ?? 'an operator' },
      [holder],
      'evicted',
      reason,
      deadline,
    )
  }
}

/** How a claim has ended, if a reading after its last edit shows that. */
async function takenOver(
  context: GithubContext,
  localClaim: LocalClaim,
  deadline: Deadline,
): Promise<ClaimStatus | undefined> {
  for (;;) {
    const read = await context.reader.read(localClaim.issue, localClaim.key, deadline)
    const verdict = verdictOn(read, knownOf(localClaim), context.settleMs)
    if (verdict.state === 'ended') return leave(context, localClaim, endedBy(verdict.claim.end), read.thread)
    if (verdict.state !== 'missing' || !mustShow(context, localClaim, read)) return undefined
    if (context.trustedAuthors.isRefused(localClaim.author)) return endMissing(context, localClaim, read.thread)
    // The comment has just been edited, so it exists: a reading without it is stale.
    await deadline.pause(context.settleMs)
  }
}

/** Reads the status of a waiter, or reuses the last one while the rate budget is short. */
async function resolveOrRest(context: GithubContext, localClaim: LocalClaim, deadline: Deadline): Promise<ClaimStatus> {
  const now = context.environment.now()
  const { waiting } = localClaim
  const everyMs = context.rateBudget.readEveryMs(now, localClaim.record.ttlMs)
  if (waiting === undefined || now - waiting.at >= Math.min(everyMs, waiting.againMs)) {
    return resolveStatus(context, localClaim, true, deadline)
  }
  const againMs = waiting.againMs - (now - waiting.at)
  return { state: 'waiting', ahead: waiting.ahead, ttlMs: leftMs(context, localClaim), againMs }
}

function unsupported(feature: string): ClaimStatus {
  return { state: 'unknown', error: new LeaseholdError('UNSUPPORTED', `The github store cannot do ${feature}.`) }
}
