/**
 * What one `findOneAndUpdate` can settle by itself: a claim on a key nobody holds or waits for, and the renewal or
 * release of the one that holds it. Each is a pipeline that does what the rule of `core/admission.ts` would, where that is
 * simple, and leaves the document as it is everywhere else. Literals are marked as such: a name may begin with a dollar.
 */
import type { Claim, Request } from '../../core/driver.ts'
import type { Stage } from './client.ts'
import { encodeClaim, formatVersion, keptForMs } from './document.ts'

/** Part of a pipeline: what the server is to compute. */
export type Expression = unknown

/** Who writes, and by which clock. */
export interface Writer {
  /** New for each write: the document that has it is the one this write made. */
  readonly revision: string
  readonly channel: string
  /** The server's time in milliseconds. */
  readonly now: Expression
}

/** The pipeline for a request; undefined if only the rule can tell. */
export function quickPipeline(request: Request, writer: Writer): Stage[] | undefined {
  switch (request.op) {
    case 'claim':
      return request.claim.replaces === undefined ? claimPipeline(request.claim, writer) : undefined
    case 'renew':
      return request.fenceFloor === undefined ? renewPipeline(request, writer) : undefined
    case 'release':
      return releasePipeline(request.id, writer)
    case 'evict':
      return undefined
  }
}

const literal = (value: unknown): Expression => ({ $literal: value })
const isObject = (value: Expression): Expression => ({ $eq: [{ $type: value }, 'object'] })
const isMissing = (value: Expression): Expression => ({ $eq: [{ $type: value }, 'missing'] })

/** The document as `changed` if the condition holds, else as it is. */
function replaceIf(vars: Readonly<Record<string, Expression>>, condition: Expression, changed: Expression): Stage[] {
  return [{ $replaceWith: { $let: { vars, in: { $cond: [condition, changed, '$$ROOT'] } } } }]
}

// ---- claim

function claimPipeline(claim: Claim, writer: Writer): Stage[] {
  const isNew = isMissing('$version')
  const claims = { $ifNull: ['$claims', []] }
  const id = literal(claim.id)
  const over = {
    $and: [
      { $eq: ['$$one.state', 'held'] },
      { $gte: ['$$now', { $add: ['$$one.expiresAt', '$$one.claim.graceMs'] }] },
      // A late copy of a claim that has ended does not begin it anew.
      { $ne: ['$$one.claim.id', id] },
    ],
  }
  const mayHold = {
    $and: [
      { $or: [isNew, { $eq: ['$version', formatVersion] }] },
      { $lt: [{ $ifNull: ['$lastFence', 0] }, Number.MAX_SAFE_INTEGER] },
      { $allElementsTrue: [{ $map: { input: claims, as: 'one', in: over } }] },
      { $or: [{ $ne: ['$ended.id', id] }, { $gte: ['$$now', '$ended.until'] }] },
    ],
  }
  // Without a document the last fence is not known: begin past every one that can have been minted.
  const fence = { $cond: [isNew, { $multiply: ['$$now', 1000] }, { $add: ['$lastFence', 1] }] }
  const last = {
    $reduce: {
      input: claims,
      initialValue: { fence: 0 },
      in: { $cond: [{ $gt: ['$$this.fence', '$$value.fence'] }, '$$this', '$$value'] },
    },
  }
  const order = { $add: [{ $max: [0, { $max: '$claims.order' }] }, 1] }
  const changed = {
    $let: { vars: { fence, last, order }, in: { $let: { vars: { ended }, in: granted(claim, writer) } } },
  }
  return replaceIf({ now: writer.now }, mayHold, changed)
}

/** How the last holder ended: one that was still there and is over, or one that is remembered. Null: cleanly. */
const ended: Expression = {
  $cond: [
    { $gt: ['$$last.fence', 0] },
    {
      id: '$$last.claim.id',
      how: {
        $cond: [
          {
            $and: [
              { $isNumber: '$$last.claim.maxHoldMs' },
              { $gte: ['$$last.expiresAt', { $add: ['$$last.acquiredAt', '$$last.claim.maxHoldMs'] }] },
            ],
          },
          'max-hold',
          'expired',
        ],
      },
      fence: '$$last.fence',
      runner: '$$last.claim.runner',
      until: { $add: ['$$now', '$$last.ttlMs'] },
      told: false,
    },
    { $cond: [{ $lt: ['$$now', '$ended.until'] }, '$ended', null] },
  ],
}

function granted(claim: Claim, writer: Writer): Expression {
  const leaseMs = Math.min(claim.ttlMs, claim.maxHoldMs ?? Infinity)
  const record = {
    claim: encodeClaim(claim),
    state: 'held',
    ttlMs: claim.ttlMs,
    detached: claim.detached ?? false,
    renewalCount: 0,
    channel: writer.channel,
  }
  const untold = { $and: [isObject('$$ended'), { $not: ['$$ended.told'] }] }
  const grant = {
    order: '$$order',
    fence: '$$fence',
    enteredAt: '$$now',
    acquiredAt: '$$now',
    lastHeartbeat: '$$now',
    expiresAt: { $add: ['$$now', leaseMs] },
    after: { $cond: [untold, { how: '$$ended.how', fence: '$$ended.fence', runner: '$$ended.runner' }, '$$REMOVE'] },
  }
  return {
    _id: '$_id',
    version: formatVersion,
    revision: writer.revision,
    writtenAt: '$$now',
    lastFence: '$$fence',
    ended: { $cond: [isObject('$$ended'), { $mergeObjects: ['$$ended', { told: true }] }, '$$REMOVE'] },
    claims: [{ $mergeObjects: [literal(record), grant] }],
    expiresAt: kept('$$fence', { $add: ['$$now', leaseMs + claim.graceMs + claim.ttlMs] }, '$$ended.until'),
  }
}

// ---- renew and release

const first = { $arrayElemAt: ['$claims', 0] }
/** What is remembered of an end, for as long as that is worth remembering. */
const stillEnded: Expression = { $cond: [{ $lt: ['$$now', '$ended.until'] }, '$ended', '$$REMOVE'] }

/** The holder that stands first, if it is the one with this id, and its lease is not over. */
function holds(id: string): Expression[] {
  return [
    { $eq: ['$version', formatVersion] },
    { $eq: ['$$first.claim.id', literal(id)] },
    { $eq: ['$$first.state', 'held'] },
    { $lt: ['$$now', '$$first.expiresAt'] },
  ]
}

const isOnly: Expression = { $eq: [{ $size: '$claims' }, 1] }

function renewPipeline(request: Extract<Request, { op: 'renew' }>, writer: Writer): Stage[] {
  const { ttlMs, detached } = request
  const mayRenew = {
    $and: [
      ...holds(request.id),
      isMissing('$$first.leaving'),
      // More than its ttl left: the clock was set back, and the rule cuts the lease.
      { $lte: [{ $subtract: ['$$first.expiresAt', '$$now'] }, '$$first.ttlMs'] },
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
    // The least of the two; what is missing does not count.
    expiresAt: { $min: [end, { $add: ['$$first.acquiredAt', '$$first.claim.maxHoldMs'] }] },
    channel: writer.channel,
  }
  const others = { $slice: ['$claims', 1, { $max: [1, { $size: '$claims' }] }] }
  return replaceIf({ now: writer.now, first }, mayRenew, {
    _id: '$_id',
    version: '$version',
    revision: writer.revision,
    writtenAt: '$$now',
    lastFence: '$lastFence',
    ended: stillEnded,
    claims: { $concatArrays: [[{ $mergeObjects: ['$$first', renewed] }], others] },
    expiresAt: {
      $max: ['$expiresAt', kept('$lastFence', { $add: ['$$now', 2 * ttlMs, '$$first.claim.graceMs'] })],
    },
  })
}

function releasePipeline(id: string, writer: Writer): Stage[] {
  return replaceIf(
    { now: writer.now, first },
    { $and: [...holds(id), isOnly] },
    {
      _id: '$_id',
      version: '$version',
      revision: writer.revision,
      writtenAt: '$$now',
      lastFence: '$lastFence',
      ended: stillEnded,
      claims: [],
      expiresAt: kept('$lastFence', '$ended.until'),
    },
  )
}

/** When the record may be collected: see `forgetAt` in `document.ts`. */
function kept(fence: Expression, ...ends: readonly Expression[]): Expression {
  return { $toDate: { $max: [{ $add: [{ $ceil: { $divide: [fence, 1000] } }, keptForMs] }, ...ends] } }
}
