import type { ClaimRecord, Ended } from './claim-record.ts'
import { LeaseholdError } from './errors.ts'
import { KeyState } from './key-state.ts'

/** The format this version writes. A newer one is refused: what it means cannot be guessed. */
const formatVersion = 1

/** A key's claims as one JSON document, for stores that can compare-and-swap one. */
export interface KeyDocument {
  readonly version: number
  readonly lastFence: number
  readonly ended?: Ended | undefined
  readonly claims: readonly ClaimRecord[]
  /** Different in every document that `documentDriver` writes, for stores that know a document by a hash of its content. */
  readonly nonce?: string | undefined
}

/** The document of a key, to be stored. */
export function encodeKey(state: KeyState): KeyDocument {
  return {
    version: formatVersion,
    lastFence: state.lastFence,
    ended: state.ended,
    claims: [...state.holders(), ...state.waiters()],
  }
}

/** A key out of its document; a fresh one if there is none. Checks what it must rely on. */
export function decodeKey(key: string, document: KeyDocument | undefined): KeyState {
  if (document === undefined) return new KeyState()
  const { version, lastFence, ended, claims } = document
  if (version !== formatVersion) {
    const what = `The record of ${JSON.stringify(key)} has format ${String(version)}; this version reads ${formatVersion}.`
    throw new LeaseholdError('UNAVAILABLE', `${what} Update Leasehold here.`, { reason: 'foreign', key })
  }
  if (!Number.isSafeInteger(lastFence) || !Array.isArray(claims) || !claims.every(isRecord)) {
    const what = `The record of ${JSON.stringify(key)} is damaged.`
    throw new LeaseholdError('UNAVAILABLE', `${what} Remove it once nobody holds the lock.`, { reason: 'corrupt', key })
  }
  const state = new KeyState({ last: lastFence })
  state.ended = ended ?? undefined
  for (const record of claims as readonly ClaimRecord[]) state.put(record)
  return state
}

function isRecord(value: unknown): boolean {
  const record = value as Partial<ClaimRecord> | null
  return (
    typeof record?.claim?.id === 'string' &&
    (record.state === 'held' || record.state === 'waiting') &&
    Number.isFinite(record.expiresAt) &&
    Number.isFinite(record.ttlMs)
  )
}
