import { randomBytes } from 'node:crypto'
import type { EtcdKeyspace } from '../keyspace.ts'
import type { EtcdClient } from '../rpc/client.ts'
import {
  calls,
  grantRequest,
  leaseRequest,
  put,
  rangeRequest,
  leaseReply,
  rangeReply,
  txnRequest,
  unchangedSince,
} from '../rpc/messages.ts'

/** Ten years: the lease is never kept alive, and etcd counts how much of it has passed. */
const leaseSeconds = 315_360_000

export interface DataAgeSetup {
  readonly client: Pick<EtcdClient, 'call'>
  readonly keyspace: EtcdKeyspace
  readonly timeoutMs: number
}

/**
 * For how long etcd has kept the data under the prefix. A key under the prefix is on a long etcd lease that is never renewed: the
 * part of that lease that has passed is the age of the data, by etcd's own clock. If the prefix was removed, so was the key, and a new one
 * begins. A lease begins anew with every leader: after a snapshot was restored, and after a server or its leader restarted, the
 * data counts as young, too.
 */
export class DataAge {
  readonly #setup: DataAgeSetup
  /** The lease that the key was last seen on. */
  #lease = 0

  constructor(setup: DataAgeSetup) {
    this.#setup = setup
  }

  async ms(): Promise<number> {
    // The key is read after the answer that its age is asked for. A lease whose key has gone says nothing.
    const [lease, age] = await Promise.all([this.#read(), this.#ageOf(this.#lease)])
    const isKnown = lease !== 0 && lease === this.#lease
    this.#lease = lease
    if (isKnown) return age
    if (lease !== 0) return this.#ageOf(lease)
    await this.#begin()
    return 0
  }

  /** The lease that the key is on; 0: there is no key. */
  async #read(): Promise<number> {
    const { client, keyspace, timeoutMs } = this.#setup
    const { data } = await client.call(calls.range, rangeRequest({ key: keyspace.since, keysOnly: true }), timeoutMs)
    return rangeReply.read(data).pairs[0]?.lease ?? 0
  }

  /** How much of a lease has passed, in milliseconds; 0: the lease is gone. */
  async #ageOf(lease: number): Promise<number> {
    if (lease === 0) return 0
    const { client, timeoutMs } = this.#setup
    const { data } = await client.call(calls.timeToLive, leaseRequest(lease), timeoutMs)
    const { seconds, grantedSeconds } = leaseReply.read(data)
    // etcd rounds down what is left.
    return seconds <= 0 ? 0 : Math.max(0, grantedSeconds - seconds - 1) * 1000
  }

  /** Makes the key, unless another driver was quicker. */
  async #begin(): Promise<void> {
    const { client, keyspace, timeoutMs } = this.#setup
    const lease = randomBytes(6).readUIntBE(0, 6) + 1
    await client.call(calls.grant, grantRequest(lease, leaseSeconds), timeoutMs)
    const transaction = { compare: [unchangedSince(keyspace.since, 0)], success: [put(keyspace.since, '', lease)] }
    await client.call(calls.txn, txnRequest(transaction), timeoutMs)
  }
}
