import type { ClaimRecord } from '../claim-record.ts'
import { overlaps, roomFor } from '../conflict.ts'
import type { Claim } from '../driver.ts'
import type { Draft } from './draft.ts'

/** Applies a claim's own rule to those in its way. `taken`: it now has their place, whoever waits. */
export function applyEvictRule(draft: Draft, claim: Claim): 'taken' | 'queue' {
  switch (claim.evict) {
    case undefined:
      return 'queue'
    case 'lower-priority':
      for (const holder of makeRoom(draft, claim, (one) => one.claim.priority < claim.priority))
        askToLeave(draft, holder)
      return 'queue'
    case 'stale': {
      const silentSince = draft.now - (claim.staleMs ?? claim.ttlMs)
      evictAll(
        draft,
        makeRoom(draft, claim, (holder) => holder.lastHeartbeat <= silentSince),
        'stale',
      )
      return 'queue'
    }
    case 'same-runner': {
      const own = makeRoom(draft, claim, (holder) => holder.claim.runner.id === claim.runner.id)
      evictAll(draft, own, 'reclaimed')
      return own.length > 0 ? 'taken' : 'queue'
    }
    case 'all':
      evictAll(
        draft,
        makeRoom(draft, claim, () => true),
        'forced',
      )
      return 'taken'
  }
}

/** Ends a holder at once, against its will. */
export function evict(draft: Draft, holder: ClaimRecord, detail: string): void {
  draft.removeHolder(holder)
  draft.noteEnd(holder, 'evicted', detail)
  draft.notify(holder, { state: 'absent', reason: 'evicted', detail })
}

function evictAll(draft: Draft, holders: readonly ClaimRecord[], detail: string): void {
  for (const holder of holders) evict(draft, holder, detail)
}

/** Stops a holder's renewals. One whose lease is over already needs no asking. */
function askToLeave(draft: Draft, holder: ClaimRecord): void {
  if (holder.leaving !== undefined || draft.now >= holder.expiresAt) return
  const leaving: ClaimRecord = { ...holder, leaving: 'preempted' }
  draft.replaceHolder(holder, leaving)
  draft.change(holder, leaving)
  draft.notify(leaving, draft.claimStatusOf(leaving))
}

/**
 * The fewest eligible holders without whom the claim would fit, lowest priority and oldest first. None if it fits
 * already, or would not fit even without all of them: nobody is turned out for nothing.
 */
function makeRoom(draft: Draft, claim: Claim, eligible: (holder: ClaimRecord) => boolean): readonly ClaimRecord[] {
  const candidates = draft.holders
    .filter((holder) => holder.claim.id !== claim.replaces && overlaps(holder.claim, claim) && eligible(holder))
    .toSorted((one, other) => one.claim.priority - other.claim.priority || one.fence - other.fence)
  const staying = new Set(draft.holders)
  const leaving: ClaimRecord[] = []
  for (const candidate of candidates) {
    if (roomFor(claim, staying) === 'room') break
    staying.delete(candidate)
    leaving.push(candidate)
  }
  return roomFor(claim, staying) === 'room' ? leaving : []
}
