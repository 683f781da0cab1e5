import { listed, type ClaimRecord, type Ended } from '../../core/rule/claim-record.ts'
import type { Claim, ListedKey, ListQuery, Range } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { KeyState } from '../../core/rule/key-state.ts'
import { isRunner } from '../../core/contract/status-check.ts'

/** The format this version writes. A document of another format is refused: its meaning cannot be guessed. */
const documentFormatVersion = 1

/** A key's claims as one JSON document, for stores that can compare-and-swap one. */
export interface KeyDocument {
  readonly version: number
  readonly lastFence: number
  readonly ended?: Ended | undefined
  readonly claims: readonly ClaimRecord[]
  /** Different in every document that `documentDriver` writes, for stores that know a document by a hash of its content. */
  readonly nonce?: string | undefined
}

/** The document of a key, to be stored. @internal */
export function encodeKey(state: KeyState): KeyDocument {
  return {
    version: documentFormatVersion,
    lastFence: state.lastFence,
    ended: state.ended,
    claims: [...state.holders(), ...state.waiters()],
  }
}

/** A key out of its document; a fresh one if there is none. Checks what it must rely on. @internal */
export function decodeKey(key: string, document: KeyDocument | undefined): KeyState {
  if (document === undefined) return new KeyState()
  // A store may hold any JSON there.
  const { version, lastFence, ended, claims } = document ?? {}
  if (version !== documentFormatVersion) {
    const problem = `The record of ${JSON.stringify(key)} has format ${String(version)}; this version reads ${documentFormatVersion}.`
    throw new LeaseholdError('UNAVAILABLE', `${problem} Update Leasehold here.`, { reason: 'foreign', key })
  }
  const isWhole =
    Number.isSafeInteger(lastFence) &&
    Array.isArray(claims) &&
    claims.every(isRecord) &&
    (ended == null || isEnded(ended))
  if (!isWhole) {
    const problem = `The record of ${JSON.stringify(key)} is damaged, and nobody can take or evict this lock.`
    const advice = 'Remove the record from the store once nobody holds the lock.'
    throw new LeaseholdError('UNAVAILABLE', `${problem} ${advice}`, { reason: 'corrupt', key })
  }
  const state = new KeyState({ last: lastFence })
  state.ended = ended ?? undefined
  for (const record of claims) state.put(record)
  return state
}

/** The claims of a key for `list`. Undefined: the document cannot be read, which is an error only if the key was asked for. @internal */
export function listedKey(key: string, document: KeyDocument | undefined, query: ListQuery): ListedKey | undefined {
  try {
    const state = decodeKey(key, document)
    return { key, claims: [...state.holders(), ...state.waiters()].map(listed) }
  } catch (error) {
    if (query.key === key) throw error
    return undefined
  }
}

// ---- checks of what the rule relies on

function isRecord(value: unknown): value is ClaimRecord {
  if (typeof value !== 'object' || value === null) return false
  const { claim, state, order, fence, ttlMs, enteredAt, acquiredAt, lastHeartbeat, renewalCount, expiresAt } =
    value as Partial<Record<keyof ClaimRecord, unknown>>
  return (
    isClaim(claim) &&
    (state === 'held' || state === 'waiting') &&
    [order, fence, ttlMs, renewalCount].every(isAmount) &&
    [enteredAt, acquiredAt, lastHeartbeat, expiresAt].every(Number.isFinite)
  )
}

function isClaim(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { id, mode, limit, range, priority, wait, graceMs, maxHoldMs, runner } = value as Partial<
    Record<keyof Claim, unknown>
  >
  return (
    typeof id === 'string' &&
    (mode === 'exclusive' || mode === 'shared') &&
    Number.isFinite(priority) &&
    typeof wait === 'boolean' &&
    [limit ?? 0, graceMs, maxHoldMs ?? 0].every(isAmount) &&
    isRangeOrAbsent(range) &&
    isRunner(runner)
  )
}

function isRangeOrAbsent(value: unknown): boolean {
  if (value === undefined) return true
  const { start, end } = (value ?? {}) as Partial<Record<keyof Range, unknown>>
  return isAmount(start) && isAmount(end)
}

function isEnded(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { id, fence, until, runner } = value as Partial<Record<keyof Ended, unknown>>
  return typeof id === 'string' && isAmount(fence) && Number.isFinite(until) && isRunner(runner)
}

/** A number that can be computed with: beyond 2^53 sums are no longer exact, and dates no longer dates. */
function isAmount(value: unknown): boolean {
  return Number.isFinite(value) && (value as number) >= 0 && (value as number) <= Number.MAX_SAFE_INTEGER
}
