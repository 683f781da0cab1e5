import type { ClaimRecord, Ended } from '../../../core/rule/claim-record.ts'
import type { KeyDocument } from '../key-document.ts'
import type { Beat } from './observations.ts'
import type { ObservedDocument, StoredEnd, StoredLease } from './observed-document.ts'

/** The beats that an observer must know to judge a document; none of what is damaged. */
export function beatsOf(document: ObservedDocument | null | undefined): readonly Beat[] {
  if (!Array.isArray(document?.claims)) return []
  const claims = (document.claims as readonly (StoredLease | null)[]).flatMap((lease): Beat[] => {
    if (typeof lease?.claim?.id !== 'string' || typeof lease.beat !== 'string') return []
    return [leaseBeat(lease)]
  })
  const { ended } = document
  return ended == null ? claims : [...claims, endBeat(ended)]
}

function leaseBeat({ claim, beat }: StoredLease): Beat {
  return { id: claim.id, beat }
}

function endBeat({ id, fence }: Pick<Ended, 'id' | 'fence'>): Beat {
  return { id: `ended ${id}`, beat: String(fence) }
}

/** By how much the clock of an observer may run faster than a holder's, beyond what the holder allows for. */
const driftRate = 0.05
/** What rounding to whole milliseconds may lose. */
const roundingMs = 1

/** How an observer counts: `firstSeenAt` of a beat by its own clock, and the margin that it adds to every lease. */
export interface Observer {
  readonly now: number
  readonly firstSeenAt: (beat: Beat) => number
  /** No margin: all observers share one clock. */
  readonly isExact: boolean
  /** For the rule, by which a claim has at most its ttl left: the margin shows only in its last part. */
  readonly isCut: boolean
}

/** The document with ends on the observer's clock. */
export function withEnds(document: ObservedDocument, observer: Observer): KeyDocument {
  const { now, firstSeenAt, isExact, isCut } = observer
  const leftMs = (beat: Beat, lengthMs: number): number => {
    const marginMs = isExact ? 0 : lengthMs * driftRate + roundingMs
    const left = Math.ceil(firstSeenAt(beat) + lengthMs + marginMs - now)
    return isCut ? Math.min(lengthMs, left) : left
  }
  const { ended, nonce, ...rest } = document ?? {}
  const until = ended == null ? undefined : { ...ended, until: now + leftMs(endBeat(ended), ended.keepMs) }
  if (!Array.isArray(rest.claims)) return { ...rest, ended: until, nonce } as unknown as KeyDocument
  const claims = (rest.claims as readonly (StoredLease | null)[]).map((lease) => {
    // What is damaged is for the rule's reader to refuse: also a claim with an end by some clock, and no beat.
    if (typeof lease?.claim?.id !== 'string' || typeof lease.beat !== 'string') return null as unknown as ClaimRecord
    const beat = leaseBeat(lease)
    return { ...lease, lastHeartbeat: firstSeenAt(beat), expiresAt: now + leftMs(beat, lease.ttlMs) }
  })
  return { ...rest, ended: until, claims, nonce }
}

/** A document to be written, and which leases begin anew with it. */
export interface Written {
  readonly document: ObservedDocument
  readonly renewed: ReadonlySet<string>
}

/** The time of a write, and its name. */
export interface WriteStamp extends Pick<Observer, 'now'> {
  readonly nonce: string
  readonly wall: number
  /** The channel of a claim that this write is about; undefined: it keeps its own. */
  readonly channelOf?: (id: string) => string | undefined
}

/**
 * The document to store: what the rule made of `read`, as {@link withEnds} gave it. A lease that the rule extended, shortened or
 * granted in another's place begins anew; every other keeps its beat, so that observers go on counting.
 */
export function withoutEnds(
  decided: KeyDocument,
  read: { readonly stored: ObservedDocument | undefined; readonly shown: KeyDocument | undefined },
  { nonce, now, wall, channelOf }: WriteStamp,
): Written {
  const stored = new Map((read.stored?.claims ?? []).map((lease) => [lease.claim.id, lease]))
  const shown = new Map((read.shown?.claims ?? []).map((record) => [record.claim.id, record]))
  const renewed = new Set<string>()
  const claims = decided.claims.map((record): StoredLease => {
    const { id } = record.claim
    // A claim that was released and sent again in one batch has entered anew.
    const before = shown.get(id)?.enteredAt === record.enteredAt ? stored.get(id) : undefined
    const { expiresAt: _end, died: _died, ...rest } = record
    const channel = channelOf?.(id) ?? before?.channel
    const kept = channel === undefined ? rest : { ...rest, channel }
    const acquiredAt = record.state === 'waiting' ? 0 : before?.state === 'held' ? before.acquiredAt : wall
    if (before !== undefined && !beginsAnew(shown.get(id), record)) {
      return {
        ...kept,
        acquiredAt,
        enteredAt: before.enteredAt,
        lastHeartbeat: before.lastHeartbeat,
        beat: before.beat,
      }
    }
    renewed.add(id)
    return { ...kept, acquiredAt, enteredAt: before?.enteredAt ?? wall, lastHeartbeat: wall, beat: nonce }
  })
  const { ended } = decided
  const { version, lastFence } = decided
  const document = {
    version,
    lastFence,
    ...(ended !== undefined && { ended: storedEnd(ended, read.stored?.ended, now) }),
    claims,
    nonce,
  }
  return { document, renewed }
}

/**
 * Whether the lease of a record begins anew. That of a conversion which another client's request granted does too: its owner still
 * trusts the lease that it replaces, and other observers may have seen that one later than the conversion.
 */
function beginsAnew(before: ClaimRecord | undefined, after: ClaimRecord): boolean {
  return (
    before === undefined ||
    before.expiresAt !== after.expiresAt ||
    before.ttlMs !== after.ttlMs ||
    before.renewalCount !== after.renewalCount ||
    (before.state !== after.state && after.claim.replaces !== undefined)
  )
}

/** The end to store. One that was stored before keeps its length, which observers count from when they first saw it. */
function storedEnd({ until, ...ended }: Ended, before: StoredEnd | undefined, now: number): StoredEnd {
  const isSame = before != null && before.id === ended.id && before.fence === ended.fence
  return { ...ended, keepMs: isSame ? before.keepMs : Math.max(1, until - now) }
}
