import type { ClaimRecord } from '../../core/rule/claim-record.ts'
import type { KeyDocument } from '../document/key-document.ts'
import type { Found } from './batched-transactions.ts'
import type { KnownTimes } from './test-leases.ts'
import { decodeEtcdDocument } from './document.ts'
import type { EtcdKeyspace } from './keyspace.ts'
import { rangeOperation, type TxnOperation } from './rpc/messages.ts'

/** A key as it was read or written. */
export interface KeyReading {
  /** When its document was last changed; 0: there is none. */
  readonly revision: number
  /** The revision of the store when the markers were read. */
  readonly seenAt: number
  readonly document: KeyDocument | undefined
  /** The lease that the marker of each living claim is on. */
  readonly markers: ReadonlyMap<string, number>
  /** Claims with a liveness probe. Absent: none. */
  readonly probed?: ReadonlySet<string>
  /** The claims of the document, dead or alive. */
  readonly records: ReadonlyMap<string, ClaimRecord>
  /** The channel of the driver that keeps each claim. */
  readonly channels: ReadonlyMap<string, string>
}

/** The reading of a key that has no document. */
export const absentKey: KeyReading = {
  revision: 0,
  seenAt: 0,
  document: undefined,
  markers: new Map(),
  records: new Map(),
  channels: new Map(),
}

/** The two ranges that a {@link KeyReading} is made of. */
export function readingOf(keyspace: EtcdKeyspace, key: string): [TxnOperation, TxnOperation] {
  return [
    rangeOperation({ key: keyspace.document(key) }),
    rangeOperation({ ...keyspace.markersAndProbes(key), keysOnly: true }),
  ]
}

/** The reading out of what {@link readingOf} found. */
export function foundReading(keyspace: EtcdKeyspace, { found, revision: seenAt }: Found): KeyReading {
  const [documents, names = []] = found
  const probes = names.filter(({ key }) => keyspace.isProbe(key))
  const markers = probes.length === 0 ? names : names.filter(({ key }) => !keyspace.isProbe(key))
  const stored = documents?.[0]
  const { document, channels } = decodeEtcdDocument(stored?.value)
  const claims = Array.isArray(document?.claims) ? (document.claims as KeyDocument['claims']) : []
  return {
    revision: stored?.modRevision ?? 0,
    seenAt,
    document,
    channels,
    markers: new Map(markers.map(({ key, lease }) => [keyspace.claimOfMarker(key).id, lease])),
    ...(probes.length > 0 && { probed: new Set(probes.map(({ key }) => keyspace.claimOfMarker(key).id)) }),
    records: recordsOf(claims),
  }
}

/** Claims by their ids. Damaged ones are left out. */
export function recordsOf(claims: KeyDocument['claims']): ReadonlyMap<string, ClaimRecord> {
  return new Map(claims.flatMap((record) => (record?.claim === undefined ? [] : [[record.claim.id, record]])))
}

/** The times of a key's claims, which are not in its document. */
export interface ClaimTimes {
  readonly now: number
  /** The lease that the marker of each living claim is on. */
  readonly markers: ReadonlyMap<string, number>
  /** The times that a test gave which moves time. */
  readonly known: (id: string) => KnownTimes | undefined
  /** A living claim, with its times. */
  readonly living: (record: ClaimRecord, lease: number) => ClaimRecord
}

/** The document with the times of its claims: a claim without a marker is over. */
export function withTimes(document: KeyDocument, { now, markers, known, living }: ClaimTimes): KeyDocument {
  if (!Array.isArray(document.claims)) return document
  const claims = (document.claims as KeyDocument['claims']).map((record) => {
    if (record?.claim === undefined) return record
    const { id } = record.claim
    const lease = markers.get(id)
    if (lease === undefined) return { ...record, expiresAt: now }
    const times = known(id)
    return times === undefined ? living(record, lease) : { ...record, ...times }
  })
  return { ...document, claims }
}

const keysMax = 5000

/** Keys as this driver last wrote them: unchanged as long as no other driver writes them. */
export class RecentKeys {
  readonly #readings = new Map<string, KeyReading>()

  get(key: string): KeyReading | undefined {
    return this.#readings.get(key)
  }

  /** Remembers a key that can be guessed: one with at most one claim. */
  put(key: string, reading: KeyReading): void {
    this.#readings.delete(key)
    if (reading.records.size > 1) return
    this.#readings.set(key, reading)
    if (this.#readings.size <= keysMax) return
    for (const oldest of this.#readings.keys()) {
      this.#readings.delete(oldest)
      return
    }
  }

  clear(): void {
    this.#readings.clear()
  }
}

/** Seconds of etcd's leases in tests that move time: too long to end anything. @internal */
export const testLeaseSeconds = 3600
