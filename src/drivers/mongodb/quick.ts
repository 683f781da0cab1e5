/**
 * What one `findOneAndUpdate` can settle by itself: a claim on a key nobody holds or waits for, and the renewal or
 * release of the one that holds it. Each is a pipeline that does what the rule of `core/admission.ts` would, where that is
 * simple, and leaves the document as it is everywhere else. Literals are marked as such: a name may begin with a dollar.
 */
import type { Claim, Request } from '../../core/driver.ts'
import type { Fields, Stage } from './client.ts'
import { encodeClaim, formatVersion, keptForMs, keptLongerMs } from './document.ts'

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
export interface QuickCommand {
  readonly filter: Fields
  readonly update: Fields | Stage[]
  readonly upsert: boolean
}

/** The command for a request; undefined if only the rule can tell. */
export function quickCommand(request: Request, writer: Writer): QuickCommand | undefined {
  switch (request.op) {
    case 'claim':
      if (request.claim.replaces !== undefined) return undefined
      return { filter: { _id: request.claim.key }, update: claimPipeline(request.claim, writer), upsert: true }
    case 'renew':
      if (request.fenceFloor !== undefined) return undefined
      return { filter: { _id: request.key }, update: renewPipeline(request, writer), upsert: false }
    case 'release':
      return releaseCommand(request, writer)
    case 'evict':
      return undefined
  }
}

const literal = (value: unknown): Expression => ({ $literal: value })
const isThere = (value: Expression): Expression => ({ $gt: [value, null] })
const isMissing = (value: Expression): Expression => ({ $eq: [{ $type: value }, 'missing'] })

/** The document as `changed` if the condition holds, else as it is. */
function replaceIf(vars: Readonly<Record<string, Expression>>, condition: Expression, changed: Expression): Stage[] {
  return [{ $replaceWith: { $let: { vars, in: { $cond: [condition, changed, '$$ROOT'] } } } }]
}

/** When the record may be collected: moved on only when it must be, since the date is indexed. */
function keptUntil(clock: Expression, forMs: number): Expression {
  const leastMs = forMs + keptForMs
  const enough = { $gt: ['$expiresAt', { $add: [clock, leastMs] }] }
  return { $cond: [enough, '$expiresAt', { $add: [clock, leastMs + keptLongerMs] }] }
}

// ---- claim

function claimPipeline(claim: Claim, writer: Writer): Stage[] {
  const id = literal(claim.id)
  const mayHold = {
    $and: [
      // Free, or not there at all; a document that does not say is not ours to judge.
      { $lte: [{ $ifNull: ['$freeAt', { $multiply: ['$version', 1e16] }] }, '$$now'] },
      { $lte: ['$version', formatVersion] },
      // A late copy of a claim that has ended does not begin it anew.
      { $ne: ['$last.id', id] },
      { $ne: ['$ended.id', id] },
    ],
  }
  // Without a document the last fence is not known: begin past every one that can have been minted.
  const fence = { $ifNull: [{ $add: ['$lastFence', 1] }, { $multiply: ['$$now', 1000] }] }
  const changed = { $let: { vars: { fence }, in: granted(claim, writer) } }
  return replaceIf({ now: { $toLong: writer.clock } }, mayHold, changed)
}

/** The holder that is found to be over, if one is; else the end that is remembered, which is over when it is over. */
const ended: Expression = {
  $cond: [isThere('$last'), { $mergeObjects: ['$last', { until: { $add: ['$$now', '$last.ttlMs'] } }] }, '$ended'],
}

function granted(claim: Claim, writer: Writer): Expression {
  const { ttlMs, graceMs, maxHoldMs = Infinity } = claim
  const leaseMs = Math.min(ttlMs, maxHoldMs)
  const stored = encodeClaim(claim)
  const record = {
    claim: stored,
    state: 'held',
    order: 1,
    ttlMs,
    detached: claim.detached ?? false,
    renewalCount: 0,
    channel: writer.channel,
  }
  const how = maxHoldMs <= ttlMs ? 'max-hold' : 'expired'
  const last = { id: claim.id, how, runner: stored.runner, ttlMs, told: true }
  const expiresAt = { $add: ['$$now', leaseMs] }
  const grant = {
    fence: '$$fence',
    enteredAt: '$$now',
    acquiredAt: '$$now',
    lastHeartbeat: '$$now',
    expiresAt,
    after: '$last',
  }
  return {
    _id: '$_id',
    version: formatVersion,
    revision: writer.revision,
    writtenAt: '$$now',
    lastFence: '$$fence',
    ended,
    claims: [{ $mergeObjects: [literal(record), grant] }],
    freeAt: { $add: ['$$now', leaseMs + graceMs] },
    last: { $mergeObjects: [literal(last), { fence: '$$fence', expiresAt }] },
    expiresAt: keptUntil(writer.clock, leaseMs + graceMs + ttlMs),
  }
}

// ---- renew

function renewPipeline(request: Extract<Request, { op: 'renew' }>, writer: Writer): Stage[] {
  const { ttlMs, detached } = request
  const isOnly = { $eq: [{ $size: '$claims' }, 1] }
  const mayRenew = {
    $and: [
      { $eq: ['$version', formatVersion] },
      { $eq: ['$$first.claim.id', literal(request.id)] },
      { $eq: ['$$first.state', 'held'] },
      { $lt: ['$$now', '$$first.expiresAt'] },
      // More than its ttl left: the clock was set back, and the rule cuts the lease.
      { $lte: [{ $subtract: ['$$first.expiresAt', '$$now'] }, '$$first.ttlMs'] },
      isMissing('$$first.leaving'),
      isMissing('$$first.claim.maxHoldMs'),
      // Beside one that holds the whole key alone nobody can be let in, so the queue need not be looked at.
      { $or: [isOnly, { $and: [{ $eq: ['$$first.claim.mode', 'exclusive'] }, isMissing('$$first.claim.range')] }] },
    ],
  }
  const end = { $add: ['$$now', ttlMs] }
  const renewed = {
    ttlMs,
    ...(detached !== undefined && { detached }),
    lastHeartbeat: '$$now',
    renewalCount: { $add: ['$$first.renewalCount', 1] },
    expiresAt: end,
    channel: writer.channel,
  }
  const others = { $slice: ['$claims', 1, { $max: [1, { $size: '$claims' }] }] }
  return replaceIf({ now: { $toLong: writer.clock }, first: { $arrayElemAt: ['$claims', 0] } }, mayRenew, {
    _id: '$_id',
    version: '$version',
    revision: writer.revision,
    writtenAt: '$$now',
    lastFence: '$lastFence',
    ended: { $cond: [{ $lt: ['$$now', '$ended.until'] }, '$ended', '$$REMOVE'] },
    claims: { $concatArrays: [[{ $mergeObjects: ['$$first', renewed] }], others] },
    freeAt: { $cond: [isOnly, { $add: [end, '$$first.claim.graceMs'] }, '$freeAt'] },
    last: { $cond: [isThere('$last'), { $mergeObjects: ['$last', { ttlMs, expiresAt: end }] }, '$$REMOVE'] },
    expiresAt: { $max: ['$expiresAt', { $toDate: { $add: [end, ttlMs + keptForMs, '$$first.claim.graceMs'] } }] },
  })
}

// ---- release

/** No pipeline: what it writes is known beforehand. An end that nobody was told of is for the rule to tell. */
function releaseCommand({ key, id }: Extract<Request, { op: 'release' }>, writer: Writer): QuickCommand {
  const isOnly = { version: formatVersion, 'last.id': id, 'ended.told': { $ne: false } }
  return {
    filter: { _id: key, ...isOnly, $expr: { $lt: [{ $toLong: writer.clock }, '$last.expiresAt'] } },
    update: { $set: { revision: writer.revision, claims: [], freeAt: 0 }, $unset: { last: '', news: '' } },
    upsert: false,
  }
}
