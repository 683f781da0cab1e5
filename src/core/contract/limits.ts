/**
 * The one place that checks every number and text of a request against what the store supports. The batcher checks before
 * it sends, each driver before it carries out, the server before it passes on: what one of them refuses, all refuse.
 *
 * Pure. A request within its limits costs comparisons and no allocation: see docs/decisions/009-limits.md.
 */
import type { Claim, Range, Request, Runner, ClaimStatus, Supports } from './driver.ts'
import { LeaseholdError, unsupported } from '../errors.ts'
import { isWithin, requestBounds, wholeNumber, yearMs, type Bounds, metadataFault, textFault } from './bounds.ts'

/** Why a request is out of limits: a field that is out of bounds, or something that the store lacks. */
export type RequestFault =
  | { readonly code: 'INVALID'; readonly field: string; readonly what: string }
  | { readonly code: 'UNSUPPORTED'; readonly what: string }

const { keyBytesMax, idBytesMax, runnerTextBytesMax, ownerBytesMax, reasonBytesMax, holdsMax } = requestBounds

/** What is wrong with a request for a store that supports this; undefined if nothing is. */
export function limitFault(request: Request, supports: Supports): RequestFault | undefined {
  switch (request?.op) {
    case 'claim':
      return claimFault(request.claim, supports)
    case 'renew':
      return (
        placeFault(request) ??
        ttlFault(request.ttlMs, supports) ??
        fenceFloorFault(request.fenceFloor, supports) ??
        optionalFlagFault('detached', request.detached)
      )
    case 'release':
    case 'withdraw':
      return placeFault(request)
    case 'evict':
      return (
        evictionFault(supports) ??
        invalidIf('key', textFault(request.key, keyBytesMax)) ??
        numberFault('fence', request.fence, requestBounds.natural) ??
        invalidIf('reason', textFault(request.reason, reasonBytesMax, 0))
      )
    default:
      return { code: 'INVALID', field: 'op', what: 'must be one of claim, renew, release, withdraw, evict' }
  }
}

/** What is wrong with a ttl for this store, be it of a claim, a renewal, a conversion or a hand-off. */
export function ttlFault(ttlMs: number, supports: Supports): RequestFault | undefined {
  const { ttlMinMs } = supports
  if (Number.isSafeInteger(ttlMs) && ttlMs >= ttlMinMs && ttlMs <= ttlMaxOf(supports)) return undefined
  return { code: 'INVALID', field: 'ttlMs', what: `must be from ${ttlMinMs} to ${ttlMaxOf(supports)} for this store` }
}

/** What is wrong with a ttl and a grace together, which some stores bound. */
export function blockingFault(
  ttlMs: number,
  graceMs: number,
  { ttlAndGraceMaxMs }: Supports,
): RequestFault | undefined {
  if (ttlAndGraceMaxMs === undefined || ttlMs + graceMs <= ttlAndGraceMaxMs) return undefined
  return {
    code: 'INVALID',
    field: 'ttlMs and graceMs',
    what: `are ${ttlMs + graceMs} together; this store takes ${ttlAndGraceMaxMs} at most`,
  }
}

/** Refuses an eviction where the store can carry out none, rather than answer that no claim held the lock. */
export function evictionFault({ evict }: Supports): RequestFault | undefined {
  return evict.length === 0 ? { code: 'UNSUPPORTED', what: 'evictions' } : undefined
}

/** The longest grace, longest hold and silence that a store takes. */
export function durationMaxOf({ durationMaxMs = yearMs }: Supports): number {
  return Math.min(durationMaxMs, yearMs)
}

/** The highest fence floor that a store takes, whatever its driver says. */
export function fenceFloorMaxOf({ fenceFloorMax = requestBounds.fenceFloor.most }: Supports): number {
  return Math.min(fenceFloorMax, requestBounds.fenceFloor.most)
}

/** The longest ttl that a store takes, whatever its driver says. */
export function ttlMaxOf({ ttlMaxMs }: Supports): number {
  return Math.min(ttlMaxMs, yearMs)
}

/** The error that a request with this fault is answered with. */
export function limitError(fault: RequestFault): LeaseholdError {
  if (fault.code === 'INVALID') return new LeaseholdError('INVALID', `${fault.field} ${fault.what}.`)
  return unsupported(fault.what)
}

/**
 * Sends the requests that are within limits, and answers the others itself, each in its place. One line of a driver's
 * `send`: no request out of limits reaches a store, or makes other requests fail.
 */
export function withinLimits(
  supports: Supports,
  requests: readonly Request[],
  send: (requests: readonly Request[]) => Promise<readonly ClaimStatus[]>,
): Promise<readonly ClaimStatus[]> {
  for (const request of requests)
    if (limitFault(request, supports) !== undefined) return sendValid(supports, requests, send)
  return send(requests)
}

async function sendValid(
  supports: Supports,
  requests: readonly Request[],
  send: (requests: readonly Request[]) => Promise<readonly ClaimStatus[]>,
): Promise<readonly ClaimStatus[]> {
  const faults = requests.map((request) => limitFault(request, supports))
  const valid = requests.filter((_, place) => faults[place] === undefined)
  const statuses = valid.length === 0 ? [] : [...(await send(valid))]
  return faults.map((fault) =>
    fault === undefined ? (statuses.shift() as ClaimStatus) : { state: 'unknown', error: limitError(fault) },
  )
}

function claimFault(claim: Claim, supports: Supports): RequestFault | undefined {
  const { ttlMs, graceMs } = claim
  return (
    placeFault(claim) ??
    ttlFault(ttlMs, supports) ??
    lackFor(claim, supports) ??
    durationFault('graceMs', graceMs, 0, supports) ??
    blockingFault(ttlMs, graceMs, supports) ??
    (claim.maxHoldMs === undefined ? undefined : durationFault('maxHoldMs', claim.maxHoldMs, 1, supports)) ??
    (claim.staleMs === undefined ? undefined : durationFault('staleMs', claim.staleMs, 0, supports)) ??
    numberFault('priority', claim.priority, requestBounds.priority) ??
    optionalFault('limit', claim.limit, requestBounds.permits) ??
    (claim.range === undefined ? undefined : rangeFault(claim.range)) ??
    (claim.replaces === undefined ? undefined : invalidIf('replaces', textFault(claim.replaces, idBytesMax))) ??
    modeFault(claim) ??
    optionalFlagFault('detached', claim.detached) ??
    runnerFault(claim.runner)
  )
}

/** What the store lacks for a claim. */
function lackFor(claim: Claim, supports: Supports): RequestFault | undefined {
  const missing =
    (claim.mode === 'shared' && !supports.shared && 'shared claims') ||
    (claim.limit !== undefined && !supports.limit && 'limits') ||
    (claim.range !== undefined && !supports.range && 'ranges') ||
    (claim.replaces !== undefined && !supports.convert && 'conversions') ||
    (claim.priority !== 0 && !supports.priority && 'priorities') ||
    (claim.graceMs > 0 && !supports.grace && 'a grace') ||
    (claim.maxHoldMs !== undefined && !supports.maxHold && 'a longest hold') ||
    (claim.evict !== undefined && !supports.evict.includes(claim.evict) && `evict: '${claim.evict}'`)
  return missing ? { code: 'UNSUPPORTED', what: missing } : undefined
}

/** What is wrong with a range; undefined if nothing is. */
export function rangeFault(range: Range): RequestFault | undefined {
  return (
    numberFault('range.start', range?.start, requestBounds.natural) ??
    numberFault('range.end', range.end, requestBounds.positive) ??
    invalidIf('range', range.start < range.end ? undefined : 'must end after its start')
  )
}

/** Runners found to be within limits: a client makes all its claims with the same one, and several layers check each claim. */
const checkedRunners = new WeakSet<Runner>()

function runnerFault(runner: Runner): RequestFault | undefined {
  if (checkedRunners.has(runner)) return undefined
  const fault = newRunnerFault(runner)
  if (fault === undefined) checkedRunners.add(runner)
  return fault
}

function newRunnerFault(runner: Runner): RequestFault | undefined {
  return (
    invalidIf('runner.id', textFault(runner?.id, runnerTextBytesMax)) ??
    invalidIf('runner.incarnation', textFault(runner.incarnation, runnerTextBytesMax)) ??
    invalidIf('runner.host', textFault(runner.host, runnerTextBytesMax, 0)) ??
    numberFault('runner.pid', runner.pid, requestBounds.natural) ??
    invalidIf('runner.client', textFault(runner.client, runnerTextBytesMax)) ??
    (runner.owner === undefined ? undefined : invalidIf('runner.owner', textFault(runner.owner, ownerBytesMax, 0))) ??
    (runner.holds === undefined ? undefined : invalidIf('runner.holds', holdsFault(runner.holds))) ??
    (runner.metadata === undefined ? undefined : invalidIf('runner.metadata', metadataFault(runner.metadata)))
  )
}

function holdsFault(holds: unknown): string | undefined {
  if (!Array.isArray(holds) || holds.length > holdsMax) return `must be a list of at most ${holdsMax} keys`
  return holds.map((key) => textFault(key, keyBytesMax)).find((fault) => fault !== undefined)
}

function placeFault({ key, id }: { readonly key: string; readonly id: string }): RequestFault | undefined {
  return invalidIf('key', textFault(key, keyBytesMax)) ?? invalidIf('id', textFault(id, idBytesMax))
}

function modeFault({ mode, wait }: Claim): RequestFault | undefined {
  if (mode !== 'exclusive' && mode !== 'shared') return invalidIf('mode', 'must be one of exclusive, shared')
  return typeof wait === 'boolean' ? undefined : invalidIf('wait', 'must be true or false')
}

function durationFault(field: string, valueMs: number, least: number, supports: Supports): RequestFault | undefined {
  const most = durationMaxOf(supports)
  if (Number.isSafeInteger(valueMs) && valueMs >= least && valueMs <= most) return undefined
  return { code: 'INVALID', field, what: `${wholeNumber({ least, most })}, in milliseconds` }
}

function numberFault(field: string, value: number, bounds: Bounds): RequestFault | undefined {
  return isWithin(value, bounds) ? undefined : { code: 'INVALID', field, what: wholeNumber(bounds) }
}

function optionalFault(field: string, value: number | undefined, bounds: Bounds): RequestFault | undefined {
  return value === undefined ? undefined : numberFault(field, value, bounds)
}

function fenceFloorFault(floor: number | undefined, supports: Supports): RequestFault | undefined {
  if (floor === undefined) return undefined
  return numberFault('fenceFloor', floor, { least: requestBounds.fenceFloor.least, most: fenceFloorMaxOf(supports) })
}

function optionalFlagFault(field: string, value: boolean | undefined): RequestFault | undefined {
  return value === undefined || typeof value === 'boolean' ? undefined : invalidIf(field, 'must be true or false')
}

function invalidIf(field: string, what: string | undefined): RequestFault | undefined {
  return what === undefined ? undefined : { code: 'INVALID', field, what }
}
