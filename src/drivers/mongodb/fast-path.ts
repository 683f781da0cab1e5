/**
 * Requests that one command settles: a claim on a key that no claim holds or waits for, and the renewal or release of its only
 * holder. Each does what the rule of `core/rule/admission.ts` would where that is simple, and leaves the document unchanged
 * elsewhere. The filter is the key alone, as the server has a fast path for `_id`. In an upsert, a document that did not exist
 * has only its `_id`.
 */
import type { Claim, Request } from '../../core/contract/driver.ts'
import type { BsonFields, PipelineStage } from './client.ts'
import { claimJson, collectionFormatVersion, keptForMs, keptLongerMs, type StoredClaim } from './document.ts'

/** Part of a pipeline: what the server is to compute. */
export type Expression = unknown

/** The writing driver, and the clock to write by. */
export interface Writer {
  /** New for each write: the document that has it was made by this write. */
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

/** The command for a request; undefined: the rule must decide. */
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

/** The longest time that the server adds to its clock: a longer one could end past the last date there is. */
const longestMs = 1e14
const isEndless = ({ ttlMs, graceMs }: Claim): boolean => ttlMs > longestMs || graceMs > longestMs

/** A name that begins with a dollar would be read as a field. */
const text = (value: string): Expression => (value.startsWith('$') ? { $literal: value } : value)
const isMissing = (value: Expression): Expression => ({ $eq: [{ $type: value }, 'missing'] })

// ---- claim

function claimPipeline(claim: Claim, { revision, channel, clock }: Writer): PipelineStage[] {
  const { ttlMs, graceMs, maxHoldMs } = claim
  const leaseMs = maxHoldMs === undefined ? ttlMs : Math.min(ttlMs, maxHoldMs)
  // The key has no claim, or only an expired one. A damaged document is left to the rule to refuse.
  const isFree = {
    $and: [
      { $eq: ['$version', collectionFormatVersion] },
      { $eq: [{ $type: '$freeAt' }, 'date'] },
      // There is a next fence. BSON sorts what is no number above all numbers.
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
    // A claim that is found here has expired.
    previous: '$claims',
    previousFence: '$lastFence',
    freeAt: { $add: [clock, leaseMs + graceMs] },
    expiresAt: keptUntil(clock, leaseMs + graceMs + ttlMs),
  }
  return [{ $replaceWith: { $cond: [mayHold, changed, '$$ROOT'] } }]
}

/** When the record may be collected: the date changes only when it must, since it is indexed. */
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
      // The end of the claim before is remembered by the time of the last write, which a renewal would change.
      { $not: [{ $gt: ['$previous', []] }] },
      // Beside a holder of the whole key no claim can be let in, so the queue need not be read.
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
  const laterClaims = { $slice: ['$claims', 1, { $max: [1, { $size: '$claims' }] }] }
  const changed = {
    version: collectionFormatVersion,
    revision,
    writtenAt: clock,
    lastFence: '$lastFence',
    ended: '$ended',
    claims: { $concatArrays: [[{ $mergeObjects: ['$$first', renewed] }], laterClaims] },
    freeAt: { $cond: ['$$first.isSole', endForOthers, '$freeAt'] },
    expiresAt: { $max: ['$expiresAt', { $add: [endForOthers, ttlMs + keptForMs] }] },
  }
  const first = { $arrayElemAt: ['$claims', 0] }
  return [{ $replaceWith: { $let: { vars: { first }, in: { $cond: [mayRenew, changed, '$$ROOT'] } } } }]
}

// ---- release

/**
 * Not a pipeline, which would cost the server more than all else: `$pull` changes nothing if the claim is not there. It has no
 * condition on the time: send it only if the lease is surely not over.
 */
function withdrawal(id: string): BsonFields {
  return { $pull: { claims: { id, isSole: true } } }
}
