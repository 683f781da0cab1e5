/**
 * What one command can settle by itself: a claim on a key nobody holds or waits for, and the renewal or release of the one
 * that holds it. Each does what the rule of `core/rule/admission.ts` would, where that is simple, and leaves the document as it
 * is everywhere else. The filter is the key alone: the server has a short way for that.
 * A document that is not there has nothing but its name.
 */
import type { Claim, Request } from '../../core/contract/driver.ts'
import type { BsonFields, PipelineStage } from './client.ts'
import { claimJson, collectionFormatVersion, keptForMs, keptLongerMs, type StoredClaim } from './document.ts'

/** Part of a pipeline: what the server is to compute. */
export type Expression = unknown

/** Who writes, and by which clock. */
export interface Writer {
  /** New for each write: the document that has it is the one this write made. */
  readonly revision: string
  readonly channel: string
  /** The server's time as a date. */
  readonly clock: Expression
}

/** One command that carries a request out, or changes nothing. */
export interface FastCommand {
  readonly filter: BsonFields
  readonly update: PipelineStage[] | BsonFields
}

/** The command for a request; undefined if only the rule can tell. */
export function fastCommand(request: Request, writer: Writer): FastCommand | undefined {
  switch (request.op) {
    case 'claim':
      if (request.claim.replaces !== undefined || isEndless(request.claim)) return undefined
      return { filter: { _id: request.claim.key }, update: claimPipeline(request.claim, writer) }
    case 'renew':
      if (request.fenceFloor !== undefined || request.ttlMs > longestMs) return undefined
      return { filter: { _id: request.key }, update: renewPipeline(request, writer) }
    case 'release':
      return { filter: { _id: request.key }, update: withdrawal(request.id) }
    case 'withdraw':
    case 'evict':
      return undefined
  }
}

/** The longest that the server adds to its clock: what is longer could end past the last date there is. */
const longestMs = 1e14
const isEndless = ({ ttlMs, graceMs }: Claim): boolean => ttlMs > longestMs || graceMs > longestMs

/** A name may begin with a dollar, which must be said not to mean anything. */
const text = (value: string): Expression => (value.startsWith('$') ? { $literal: value } : value)
const isMissing = (value: Expression): Expression => ({ $eq: [{ $type: value }, 'missing'] })

// ---- claim

function claimPipeline(claim: Claim, { revision, channel, clock }: Writer): PipelineStage[] {
  const { ttlMs, graceMs, maxHoldMs } = claim
  const leaseMs = maxHoldMs === undefined ? ttlMs : Math.min(ttlMs, maxHoldMs)
  // Nobody is there, or nobody whose time is not over. A document that is damaged is for the rule to refuse.
  const isFree = {
    $and: [
      { $eq: ['$version', collectionFormatVersion] },
      { $eq: [{ $type: '$freeAt' }, 'date'] },
      // There is a next fence. What is no number counts as more than any.
      { $lt: ['$lastFence', Number.MAX_SAFE_INTEGER] },
      { $or: [{ $eq: ['$claims', []] }, { $lte: ['$freeAt', clock] }] },
      // A late copy of a claim that has ended does not begin it anew.
      { $ne: ['$claims.id', [text(claim.id)]] },
    ],
  }
  const mayHold = { $or: [isFree, { $eq: ['$$ROOT', { _id: text(claim.key) }] }] }
  const stored: StoredClaim = {
    id: claim.id,
    channel,
    claim: claimJson(claim),
    ttlMs,
    graceMs: graceMs || undefined,
    maxHoldMs,
    isSole: true,
  }
  const changed = {
    version: collectionFormatVersion,
    revision,
    writtenAt: clock,
    // The last fence may be unknown, or come from an older copy that was restored: the clock is past every one minted before.
    lastFence: { $max: [{ $add: ['$lastFence', 1] }, { $multiply: [{ $toLong: clock }, 1000] }] },
    claims: { $literal: [stored] },
    // If somebody is found here, its time is over.
    previous: '$claims',
    previousFence: '$lastFence',
    freeAt: { $add: [clock, leaseMs + graceMs] },
    expiresAt: keptUntil(clock, leaseMs + graceMs + ttlMs),
  }
  return [{ $replaceWith: { $cond: [mayHold, changed, '$$ROOT'] } }]
}

/** When the record may be collected: moved on only when it must be, since the date is indexed. */
function keptUntil(clock: Expression, forMs: number): Expression {
  const leastMs = forMs + keptForMs
  const enough = { $gt: ['$expiresAt', { $add: [clock, leastMs] }] }
  return { $cond: [enough, '$expiresAt', { $add: [clock, leastMs + keptLongerMs] }] }
}

// ---- renew

function renewPipeline(
  request: Extract<Request, { op: 'renew' }>,
  { revision, channel, clock }: Writer,
): PipelineStage[] {
  const { ttlMs, detached } = request
  const id = text(request.id)
  const graceMs = { $ifNull: ['$$first.graceMs', 0] }
  const until = { $ifNull: ['$$first.expiresAt', { $subtract: ['$freeAt', graceMs] }] }
  const mayRenew = {
    $and: [
      { $eq: ['$version', collectionFormatVersion] },
      { $eq: ['$$first.id', id] },
      { $ne: ['$$first.state', 'waiting'] },
      { $lt: [clock, until] },
      // More than its ttl left: the clock was set back, and the rule cuts the lease.
      { $lte: [{ $subtract: [until, clock] }, '$$first.ttlMs'] },
      isMissing('$$first.leaving'),
      isMissing('$$first.maxHoldMs'),
      // The end of the one before is remembered by the time of the last write.
      { $not: [{ $gt: ['$previous', []] }] },
      // Beside one that holds the whole key alone nobody can be let in, so the queue need not be looked at.
      { $or: ['$$first.isSole', '$$first.isAlone'] },
    ],
  }
  const end = { $add: [clock, ttlMs] }
  const endForOthers = { $add: [end, graceMs] }
  const renewed = {
    channel,
    ttlMs,
    ...(detached !== undefined && { detached }),
    enteredAt: { $ifNull: ['$$first.enteredAt', '$writtenAt'] },
    acquiredAt: { $ifNull: ['$$first.acquiredAt', '$writtenAt'] },
    lastHeartbeat: clock,
    renewalCount: { $add: [{ $ifNull: ['$$first.renewalCount', 0] }, 1] },
    expiresAt: end,
  }
  const others = { $slice: ['$claims', 1, { $max: [1, { $size: '$claims' }] }] }
  const changed = {
    version: collectionFormatVersion,
    revision,
    writtenAt: clock,
    lastFence: '$lastFence',
    ended: '$ended',
    claims: { $concatArrays: [[{ $mergeObjects: ['$$first', renewed] }], others] },
    freeAt: { $cond: ['$$first.isSole', endForOthers, '$freeAt'] },
    expiresAt: { $max: ['$expiresAt', { $add: [endForOthers, ttlMs + keptForMs] }] },
  }
  const first = { $arrayElemAt: ['$claims', 0] }
  return [{ $replaceWith: { $let: { vars: { first }, in: { $cond: [mayRenew, changed, '$$ROOT'] } } } }]
}

// ---- release

/**
 * No pipeline, which would cost the server more than all else: what is not there cannot be pulled out. It has no condition
 * on the time, so that whoever sends it must know the lease not to be over.
 */
function withdrawal(id: string): BsonFields {
  return { $pull: { claims: { id, isSole: true } } }
}
