import type { ClaimRecord } from '../../core/rule/claim-record.ts'
import type { KeyPage, ListedKey, ListQuery } from '../../core/contract/driver.ts'
import { listedKey, type KeyDocument } from '../document/key-document.ts'
import { pageLimit, pageOfRows } from '../kit/paging.ts'
import type { BatchedTransactions } from './batched-transactions.ts'
import { decodeEtcdDocument } from './document.ts'
import type { EtcdKeyspace } from './keyspace.ts'
import { withTimes } from './key-reading.ts'
import type { LeasesForTests } from './test-leases.ts'
import type { EtcdClient } from './rpc/client.ts'
import {
  calls,
  leaseRequest,
  rangeOperation,
  rangeRequest,
  leaseReply,
  rangeReply,
  type KeyValue,
} from './rpc/messages.ts'

export interface ListingSetup {
  readonly client: EtcdClient
  readonly transactions: BatchedTransactions
  readonly keyspace: EtcdKeyspace
  readonly wall: () => number
  readonly forTests: LeasesForTests | undefined
  readonly timeoutMs: number
}

/** The times of a lease by etcd, in milliseconds. */
interface LeaseTimes {
  readonly leftMs: number
  readonly sinceMs: number
}

/** Leases that one page reads: nearly all processes have one for all their claims. */
const leasesMax = 100

/** One page of keys with claims, in the order of etcd's keys. */
export async function etcdPage(setup: ListingSetup, query: ListQuery): Promise<KeyPage> {
  const limit = pageLimit(query)
  const documents = await readDocuments(setup, query, limit + 1)
  const markers = await markersOf(setup, documents.slice(0, limit))
  const times = setup.forTests === undefined ? await timesOf(setup, markers) : new Map<number, LeaseTimes>()
  const now = Math.floor(setup.wall())
  const listed = ({ key, document }: Found): ListedKey | undefined => {
    const timed = withTimes(document, {
      now,
      markers: markers.get(key) ?? new Map<string, number>(),
      known: (id) => setup.forTests?.known(setup.keyspace.marker(key, id)),
      living: (record, lease) => living(record, times.get(lease) ?? { leftMs: record.ttlMs, sinceMs: 0 }, now),
    })
    return listedKey(key, timed, query)
  }
  return pageOfRows(documents, { query, now }, ({ key }) => key, listed)
}

interface Found {
  readonly key: string
  readonly document: KeyDocument
}

/** As many documents with claims as wanted, if there are so many. */
async function readDocuments(setup: ListingSetup, query: ListQuery, wanted: number): Promise<Found[]> {
  const { client, keyspace, timeoutMs } = setup
  const found: Found[] = []
  let after = query.after
  for (;;) {
    const span =
      query.key === undefined ? keyspace.documents(query.prefix ?? '', after) : { key: keyspace.document(query.key) }
    const { data } = await client.call(calls.range, rangeRequest({ ...span, limit: wanted }), timeoutMs)
    const { pairs } = rangeReply.read(data)
    for (const pair of pairs) found.push(...foundIn(keyspace, pair))
    const last = pairs.at(-1)
    if (query.key !== undefined || last === undefined || pairs.length < wanted || found.length >= wanted) return found
    after = keyspace.keyOfDocument(last.key)
  }
}

/** The document of a pair; none for a key without claims. */
function foundIn(keyspace: EtcdKeyspace, { key: name, value }: KeyValue): Found[] {
  const { document } = decodeEtcdDocument(value)
  if (document === undefined) return []
  const isDamaged = !Number.isSafeInteger(document.lastFence)
  if (!isDamaged && Array.isArray(document.claims) && document.claims.length === 0) return []
  return [{ key: keyspace.keyOfDocument(name), document }]
}

/** The lease that each living claim is on, for each of the keys. */
async function markersOf(
  { transactions, keyspace, timeoutMs }: ListingSetup,
  keys: readonly { readonly key: string }[],
): Promise<ReadonlyMap<string, ReadonlyMap<string, number>>> {
  const readings = keys.map(({ key }) => [rangeOperation({ ...keyspace.markers(key), keysOnly: true })])
  const results = await transactions.read(readings, timeoutMs)
  return new Map(
    results.map(({ found: [pairs = []] }, index) => [
      keys[index]?.key ?? '',
      new Map(pairs.map(({ key, lease }) => [keyspace.claimOfMarker(key).id, lease])),
    ]),
  )
}

/** The times of the leases. A lease beyond the limit counts as whole. */
async function timesOf(
  { client, timeoutMs }: ListingSetup,
  markers: ReadonlyMap<string, ReadonlyMap<string, number>>,
): Promise<Map<number, LeaseTimes>> {
  const leases = new Set(Array.from(markers.values(), (ofKey) => [...ofKey.values()]).flat())
  const read = [...leases].slice(0, leasesMax)
  const replies = await Promise.all(
    read.map(async (lease) => {
      const { data } = await client.call(calls.timeToLive, leaseRequest(lease), timeoutMs)
      const { seconds, grantedSeconds } = leaseReply.read(data)
      // etcd rounds down: a lease that ends within the second has 0 seconds left.
      const leftSeconds = seconds < 0 ? 0 : seconds + 1
      return { leftMs: leftSeconds * 1000, sinceMs: Math.max(0, grantedSeconds - leftSeconds) * 1000 }
    }),
  )
  return new Map(read.map((lease, index) => [lease, replies[index] as LeaseTimes]))
}

/** A living claim: its lease says when its process last renewed. */
function living(record: ClaimRecord, { leftMs, sinceMs }: LeaseTimes, now: number): ClaimRecord {
  const lastHeartbeat = Math.max(record.lastHeartbeat, now - sinceMs)
  return {
    ...record,
    enteredAt: Math.min(record.enteredAt, now),
    acquiredAt: Math.min(record.acquiredAt, now),
    lastHeartbeat: Math.min(lastHeartbeat, now),
    expiresAt: now + Math.max(0, Math.min(leftMs, record.ttlMs)),
  }
}
