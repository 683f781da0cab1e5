import type { KeyPage, ListedClaim, ListedKey, ClaimStatus, Supports } from '../../core/contract/driver.ts'
import { isWithin, requestBounds, yearMs } from '../../core/contract/bounds.ts'
import { isRunner } from '../../core/contract/status-check.ts'
import type { Backoff } from '../../core/time/backoff.ts'
import { fromWireStatus } from '../../core/wire/wire-status.ts'

/** What a server says of its store. */
export interface StoreDescription {
  readonly protocol: number
  /** The name of the store's driver, for messages. */
  readonly name: string
  readonly supports: Supports
  /** Undefined: the store does not say. */
  readonly dataAgeMs: number | undefined
  readonly bodyBytesMax: number
  readonly requestsPerCallMax: number
}

type Given = Readonly<Record<string, unknown>>

const flags = ['shared', 'limit', 'range', 'queue', 'push', 'priority', 'convert', 'grace', 'maxHold', 'fence'] as const
const optionalNumbers = [
  'ttlDefaultMs',
  'heartbeatDefaultMs',
  'staleDefaultMs',
  'durationMaxMs',
  'ttlAndGraceMaxMs',
] as const
const optionalFlags = ['owners', 'renewals'] as const
const timesListed = [
  'ttlMs',
  'graceMs',
  'enteredAt',
  'acquiredAt',
  'lastHeartbeat',
  'renewalCount',
  'expiresAt',
] as const

/** The statuses of a reply, one for each request; undefined if they are not. */
export function statusesIn(value: unknown, count: number): readonly ClaimStatus[] | undefined {
  const statuses = recordOf(value)?.['statuses']
  if (!Array.isArray(statuses) || statuses.length !== count) return undefined
  const read = statuses.map((status) => fromWireStatus(status))
  return read.every((status) => status !== undefined) ? read : undefined
}

/** The page of a reply; undefined if it is none. */
export function pageIn(value: unknown): KeyPage | undefined {
  const page = recordOf(value)
  const { now, keys, next } = page ?? {}
  if (!Number.isFinite(now) || !Array.isArray(keys) || !keys.every(isListedKey)) return undefined
  if (next !== undefined && typeof next !== 'string') return undefined
  return { now: now as number, keys, ...(next !== undefined && { next }) }
}

/** What a reply says of the store; undefined if it says nothing of the kind. */
export function storeIn(value: unknown): StoreDescription | undefined {
  const given = recordOf(value)
  const { protocol, name, dataAgeMs } = given ?? {}
  const supports = supportsIn(recordOf(given?.['supports']))
  const { bodyBytesMax, requestsPerCallMax } = recordOf(given?.['limits']) ?? {}
  if (typeof protocol !== 'number' || supports === undefined) return undefined
  if (!isCount(bodyBytesMax) || !isCount(requestsPerCallMax)) return undefined
  if (dataAgeMs !== undefined && dataAgeMs !== null && !(typeof dataAgeMs === 'number' && dataAgeMs >= 0))
    return undefined
  // JSON has no Infinity: null stands for it.
  return {
    protocol,
    name: typeof name === 'string' ? name : 'its store',
    supports,
    dataAgeMs: dataAgeMs === null ? Infinity : dataAgeMs,
    bodyBytesMax,
    requestsPerCallMax,
  }
}

function supportsIn(given: Given | undefined): Supports | undefined {
  if (given === undefined || !flags.every((name) => typeof given[name] === 'boolean')) return undefined
  const { evict, ttlMinMs, ttlMaxMs } = given
  if (!Array.isArray(evict) || !isDuration(ttlMinMs) || !isDuration(ttlMaxMs) || ttlMinMs > ttlMaxMs) return undefined
  const supports: Record<string, unknown> = { evict, ttlMinMs, ttlMaxMs }
  const optional = optionalNumbers.filter((name) => given[name] !== undefined)
  if (!optional.every((name) => isDuration(given[name]))) return undefined
  const { fenceFloorMax } = given
  if (fenceFloorMax !== undefined && !isWithin(fenceFloorMax, requestBounds.fenceFloor)) return undefined
  if (fenceFloorMax !== undefined) supports['fenceFloorMax'] = fenceFloorMax
  for (const name of flags) supports[name] = given[name]
  for (const name of optional) supports[name] = given[name]
  for (const name of optionalFlags) if (typeof given[name] === 'boolean') supports[name] = given[name]
  if (given['lifetime'] === 'connection') supports['lifetime'] = 'connection'
  if (given['pollingDefault'] !== undefined) {
    const polling = pollingIn(recordOf(given['pollingDefault']))
    if (polling === undefined) return undefined
    supports['pollingDefault'] = polling
  }
  return supports as unknown as Supports
}

/** How to ask again. JSON has no Infinity: null stands for it. */
function pollingIn(given: Given | undefined): Backoff | undefined {
  const { attempts, minMs, maxMs, factor, jitter } = given ?? {}
  if (!isDuration(minMs) || !isDuration(maxMs) || minMs > maxMs) return undefined
  if (!isNumber(factor, 1, 100) || !isNumber(jitter, 0, 1)) return undefined
  if (attempts !== null && attempts !== undefined && !isNumber(attempts, 1, Number.MAX_SAFE_INTEGER)) return undefined
  return { attempts: attempts ?? Infinity, minMs, maxMs, factor, jitter }
}

function isListedKey(value: unknown): value is ListedKey {
  const { key, claims } = recordOf(value) ?? {}
  return typeof key === 'string' && Array.isArray(claims) && claims.every(isListedClaim)
}

function isListedClaim(value: unknown): value is ListedClaim {
  const claim = recordOf(value)
  if (claim === undefined || typeof claim['id'] !== 'string' || !isRunner(claim['runner'])) return false
  if (claim['state'] !== 'held' && claim['state'] !== 'waiting') return false
  if (claim['mode'] !== 'exclusive' && claim['mode'] !== 'shared') return false
  return Number.isSafeInteger(claim['fence']) && timesListed.every((name) => Number.isFinite(claim[name]))
}

/** A number of something: JSON can say 1e999. */
function isCount(value: unknown): value is number {
  return isWithin(value, requestBounds.positive)
}

function isDuration(value: unknown): value is number {
  return isNumber(value, Number.MIN_VALUE, yearMs)
}

function isNumber(value: unknown, least: number, most: number): value is number {
  return typeof value === 'number' && value >= least && value <= most
}

function recordOf(value: unknown): Given | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Given) : undefined
}
