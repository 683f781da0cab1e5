import type { Request, ClaimStatus } from '../../core/contract/driver.ts'
import type { BatchedTransactions } from './batched-transactions.ts'
import { decodeEtcdDocument } from './document.ts'
import type { GarbageLease } from './leases/garbage-lease.ts'
import type { EtcdKeyspace } from './keyspace.ts'
import type { EtcdClient } from './rpc/client.ts'
import { calls, put, rangeOperation, rangeRequest, rangeReply, unchangedSince, type KeyValue } from './rpc/messages.ts'

export interface SweepSetup {
  readonly client: EtcdClient
  readonly transactions: BatchedTransactions
  readonly keyspace: EtcdKeyspace
  readonly garbage: GarbageLease
  readonly send: (requests: readonly Request[]) => Promise<readonly ClaimStatus[]>
  readonly isClosed: () => boolean
  readonly timeoutMs: number
}

const keysPerRead = 100
/** Reads of one sweep. Other drivers sweep, too. */
const readsMax = 50

/**
 * Settles keys whose claims are all dead, and puts idle documents on a lease with which etcd forgets them. A failure only
 * means that they stay: never rejects.
 */
export async function sweep(setup: SweepSetup): Promise<void> {
  const { client, keyspace, timeoutMs, isClosed } = setup
  let after: string | undefined
  try {
    for (let reads = 0; reads < readsMax && !isClosed(); reads += 1) {
      const query = { ...keyspace.documents('', after), limit: keysPerRead }
      const { pairs } = rangeReply.read((await client.call(calls.range, rangeRequest(query), timeoutMs)).data)
      await settleDead(setup, pairs)
      await putOnGarbage(setup, pairs)
      const last = pairs.at(-1)
      if (last === undefined || pairs.length < keysPerRead) return
      after = keyspace.keyOfDocument(last.key)
    }
  } catch {
    // The next driver that opens the store tries again.
  }
}

/** Any request makes the rule settle a key; the release of a claim that never was changes nothing else. */
async function settleDead(
  { transactions, keyspace, send, timeoutMs }: SweepSetup,
  pairs: readonly KeyValue[],
): Promise<void> {
  const used = pairs.filter(({ value }) => claimsIn(value) > 0).map(({ key }) => keyspace.keyOfDocument(key))
  const markers = await transactions.read(
    used.map((key) => [rangeOperation({ ...keyspace.markers(key), limit: 1, keysOnly: true })]),
    timeoutMs,
  )
  const dead = used.filter((_, index) => markers[index]?.found[0]?.length === 0)
  if (dead.length === 0) return
  // A document that cannot be read is no reason to leave the next ones as they are.
  await send(dead.map((key) => ({ op: 'release', key, id: 'nobody' }))).catch(() => [])
}

async function putOnGarbage(
  { transactions, garbage, timeoutMs }: SweepSetup,
  pairs: readonly KeyValue[],
): Promise<void> {
  const idle = pairs.filter(({ value, lease }) => lease === 0 && claimsIn(value) === 0)
  const writes = await Promise.all(
    idle.map(async ({ key, value, modRevision }) => {
      const lease = await garbage.leaseFor(decodeEtcdDocument(value).document?.lastFence ?? Infinity, timeoutMs)
      return { lease, compare: [unchangedSince(key, modRevision)], success: [put(key, value, lease)] }
    }),
  )
  await transactions.write(
    writes.filter(({ lease }) => lease !== 0),
    timeoutMs,
  )
}

/** How many claims a document has; below 0: it is no document of ours. */
function claimsIn(value: Buffer): number {
  const { version, lastFence, claims } = decodeEtcdDocument(value).document ?? {}
  return version === 1 && Number.isSafeInteger(lastFence) && Array.isArray(claims) ? claims.length : -1
}
