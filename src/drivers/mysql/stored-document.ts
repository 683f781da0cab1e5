/**
 * Documents as rows have them: JSON without the last fence, which is a column. A claim that was granted by a statement alone has no times:
 * its fence is the microsecond of its grant, so all of them follow from that.
 */
import type { ClaimRecord } from '../../core/rule/claim-record.ts'
import { encodeKey, type KeyDocument } from '../document/key-document.ts'
import { KeyState } from '../../core/rule/key-state.ts'

/** A claim that nobody has touched since its grant. */
interface FreshClaim extends Omit<ClaimRecord, 'fence' | 'enteredAt' | 'acquiredAt' | 'lastHeartbeat' | 'expiresAt'> {
  readonly leaseMs: number
}

/** The text of a document, for the column. */
export function documentText({ version, ended, claims }: KeyDocument): string {
  return JSON.stringify({ version, ended, claims })
}

/** The text where nobody holds or waits, and no unclean end is remembered. */
export const idleText = documentText(encodeKey(new KeyState()))

/** The text where this claim, as the rule grants it at any time, is the only one. */
export function freshText(record: ClaimRecord): string {
  const { claim, state, order, ttlMs, detached, renewalCount, acquiredAt, expiresAt } = record
  const leaseMs = expiresAt - acquiredAt
  const fresh: FreshClaim = { claim, state, order, ttlMs, detached, renewalCount, leaseMs }
  return JSON.stringify({ version: encodeKey(new KeyState()).version, claims: [fresh] })
}

/** The document of a row. One that is damaged gets no list of claims: `decodeKey` then refuses it. */
export function storedDocument(text: string, lastFence: number): KeyDocument {
  try {
    const document = JSON.parse(text) as KeyDocument | null
    if (document !== null) return { ...document, lastFence, claims: withTimes(document.claims, lastFence) }
  } catch {
    // Refused below.
  }
  return { version: 1, lastFence, claims: undefined as unknown as [] }
}

function withTimes(claims: readonly (ClaimRecord | FreshClaim)[], fence: number): readonly ClaimRecord[] {
  const fresh = claims.length === 1 ? claims[0] : undefined
  if (fresh === undefined || !('leaseMs' in fresh)) return claims as readonly ClaimRecord[]
  const { leaseMs, ...record } = fresh
  const at = Math.floor(fence / 1000)
  return [{ ...record, fence, enteredAt: at, acquiredAt: at, lastHeartbeat: at, expiresAt: at + leaseMs }]
}
