/**
 * Claims, renewals, releases and evictions, each carried out as reads and writes of one issue's comments.
 *
 * There is nothing here that GitHub could refuse because somebody else was quicker: comments are only added, each is edited
 * by its owner alone, and what they mean is worked out by `thread.ts` and `verdict.ts`. Why that is safe: decision 060.
 */
import type { Claim, Request, Standing } from '../../core/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import type { Deadline } from './deadline.ts'
import type { Desk } from './desk.ts'
import { settleDuplicates, enter, find, isHopeless } from './entering.ts'
import { heartbeat } from './heartbeat.ts'
import { complete, endedBy, expire, leave, unknownClaim, vanish } from './leaving.ts'
import type { Seat } from './seats.ts'
import { heldBy, leftMs, mustShow, stand } from './standing.ts'
import { takeOver } from './taking-over.ts'
import { headOf, verdictOn } from './verdict.ts'

type Renewal = Extract<Request, { op: 'renew' }>
type Release = Extract<Request, { op: 'release' }>
type Eviction = Extract<Request, { op: 'evict' }>

/** Carries out a request on the issue that its key's queue is in. */
export function carryOutOn(desk: Desk, issue: number, request: Request, deadline: Deadline): Promise<Standing> {
  const elsewhere = seatedElsewhere(desk, request)
  if (elsewhere !== undefined) return Promise.resolve(elsewhere)
  switch (request.op) {
    case 'claim':
      return claimOn(desk, issue, request.claim, deadline)
    case 'renew':
      return renewOn(desk, issue, request, deadline)
    case 'release':
      return releaseOn(desk, issue, request, deadline)
    case 'withdraw':
      return Promise.resolve(unsupported('conversions'))
    case 'evict':
      return evictOn(desk, issue, request, deadline)
  }
}

/** The answer to a request whose id is that of a claim to another key: it says nothing of this one. */
function seatedElsewhere({ seats }: Desk, request: Request): Standing | undefined {
  if (request.op === 'evict') return undefined
  const { key, id } = request.op === 'claim' ? request.claim : request
  const seat = seats.find(id)
  if (seat === undefined || seat.key === key) return undefined
  return request.op === 'claim' ? { state: 'absent', reason: 'refused' } : unknownClaim
}

async function claimOn(desk: Desk, issue: number, claim: Claim, deadline: Deadline): Promise<Standing> {
  const ended = desk.seats.endOf(claim.id)
  if (ended !== undefined) return ended
  const known = desk.seats.find(claim.id)
  if (known !== undefined) return stand(desk, known, claim.wait, deadline)
  if (!claim.wait && (await isHopeless(desk, issue, claim, deadline))) {
    return desk.seats.end(claim.id, { state: 'absent', reason: 'refused' })
  }
  return stand(desk, await enter(desk, issue, claim, deadline), claim.wait, deadline)
}

async function renewOn(desk: Desk, issue: number, request: Renewal, deadline: Deadline): Promise<Standing> {
  const { seats, pace, environment } = desk
  const told = seats.endOf(request.id)
  if (told !== undefined) return told
  const known = seats.find(request.id)
  const seat = known ?? (await find(desk, issue, request, deadline))
  if (seat === undefined) return unknownClaim
  // Of one that others had in their care the comment alone does not tell whether it has been ended.
  const ended = known === undefined ? await takenOver(desk, seat, deadline) : undefined
  if (ended !== undefined) return ended
  const { fenceFloor = 0, ttlMs } = request
  if (fenceFloor > seat.comment) return unsupported('a fence above the id of its comment')
  const now = environment.now()
  const everyMs = seat.held ? pace.editEveryMs(now, ttlMs, seats.size) : pace.waiterEditEveryMs(now, ttlMs, seats.size)
  const isDue = ttlMs !== seat.record.ttlMs || now - seat.editedAt >= everyMs
  const gone = isDue ? await heartbeat(desk, seat, ttlMs, deadline) : undefined
  if (gone !== undefined) return gone
  if (!seat.held) return isDue ? stand(desk, seat, true, deadline) : standOrRest(desk, seat, deadline)
  // Stretched: the lease goes on as it was told, less the time since.
  if (!isDue) return heldBy(seat, leftMs(desk, seat))
  const turnedOut = await takenOver(desk, seat, deadline)
  if (turnedOut !== undefined) return turnedOut
  desk.mirror.put(seat.issue, seat.record)
  return heldBy(seat, ttlMs)
}

async function releaseOn(desk: Desk, issue: number, { id, key }: Release, deadline: Deadline): Promise<Standing> {
  const { seats, settleMs } = desk
  const ended = seats.endOf(id)
  if (ended !== undefined) return ended
  // Its comment may be about to appear.
  const doubtMs = seats.doubtSince(id) + settleMs - desk.environment.now()
  if (doubtMs > 0) await deadline.pause(doubtMs)
  const seat = seats.find(id) ?? (await find(desk, issue, { id, key }, deadline))
  if (seat === undefined) return seats.end(id, unknownClaim)
  const look = await desk.reader.look(issue, key, deadline)
  await settleDuplicates(desk, seat, look, deadline)
  const verdict = verdictOn(look, seat, settleMs)
  if (verdict.state === 'ended') return leave(desk, seat, endedBy(verdict.claim.end), look.thread)
  if (verdict.state === 'expired') return expire(desk, seat, look.thread, deadline)
  const result = desk.results.get(seat.comment) ?? (seat.held ? 'released' : 'gave up')
  const wasThere = await complete(desk, seat, result, deadline)
  // A look that does not show it may be too old. Who only waited has nothing to be told but that it is gone, and be it for
  // want of rights.
  if (verdict.state === 'missing' && mustShow(desk, seat, look)) {
    const isGone = !wasThere || desk.writers.isRefused(seat.author)
    if (isGone) return seat.held ? vanish(desk, seat, look.thread) : leave(desk, seat, unknownClaim, look.thread)
  }
  return leave(desk, seat, { state: 'absent', reason: 'released' }, look.thread)
}

async function evictOn(
  desk: Desk,
  issue: number,
  { key, fence, reason }: Eviction,
  deadline: Deadline,
): Promise<Standing> {
  for (;;) {
    const { thread } = await desk.reader.look(issue, key, deadline)
    const claim = thread.claims.find(({ comment }) => comment === fence)
    if (claim?.end?.how === 'taken over' && claim.end.cause === 'evicted' && claim.end.reason === reason) {
      return { state: 'absent', reason: 'evicted', detail: reason }
    }
    const head = headOf(thread)
    if (head?.comment !== fence) return unknownClaim
    await takeOver(desk, { issue, key, worker: desk.workerId ?? 'an operator' }, [head], 'evicted', reason, deadline)
  }
}

/** How a held claim has ended, if a look after its last edit shows that. */
async function takenOver(desk: Desk, seat: Seat, deadline: Deadline): Promise<Standing | undefined> {
  for (;;) {
    const look = await desk.reader.look(seat.issue, seat.key, deadline)
    const verdict = verdictOn(look, seat, desk.settleMs)
    if (verdict.state === 'ended') return leave(desk, seat, endedBy(verdict.claim.end), look.thread)
    if (verdict.state !== 'missing' || !mustShow(desk, seat, look)) return undefined
    if (desk.writers.isRefused(seat.author)) return vanish(desk, seat, look.thread)
    // Its comment has just been edited: a look that does not show it shows nothing.
    await deadline.pause(desk.settleMs)
  }
}

/** A waiter looks less often while requests are scarce. */
async function standOrRest(desk: Desk, seat: Seat, deadline: Deadline): Promise<Standing> {
  const now = desk.environment.now()
  const { waiting } = seat
  const everyMs = desk.pace.lookEveryMs(now, seat.record.ttlMs)
  if (waiting === undefined || now - waiting.at >= Math.min(everyMs, waiting.againMs)) {
    return stand(desk, seat, true, deadline)
  }
  const againMs = waiting.againMs - (now - waiting.at)
  return { state: 'waiting', ahead: waiting.ahead, ttlMs: leftMs(desk, seat), againMs }
}

function unsupported(what: string): Standing {
  return { state: 'unknown', error: new LeaseholdError('UNSUPPORTED', `The github store cannot do ${what}.`) }
}
