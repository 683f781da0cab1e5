import { randomBytes } from 'node:crypto'
import { fenceFloor } from '../../../core/rule/fence.ts'
import type { EtcdClient } from '../rpc/client.ts'
import { calls, grantRequest } from '../rpc/messages.ts'

const leaseSeconds = 3 * 3600
/** A lease is used for this long, so that a document put on it stays for twice as long at least. */
const useMs = 3_600_000
/** By how much a fence may be ahead of the clock here: another process's clock minted it, or it counts on within a millisecond. */
const aheadMaxMs = 3_600_000

/**
 * The etcd lease that idle documents are put on, never kept alive: etcd forgets them two hours later at the earliest. A fence
 * that is ahead of the clock by no more than an hour can then not be minted again, which is the rule of `mayForget`.
 */
export class GarbageLease {
  readonly #client: Pick<EtcdClient, 'call'>
  readonly #ownTime: () => number
  readonly #wall: () => number
  #lease: { readonly id: number; readonly until: number } | undefined
  #granting: Promise<void> | undefined

  constructor(client: Pick<EtcdClient, 'call'>, ownTime: () => number, wall: () => number) {
    this.#client = client
    this.#ownTime = ownTime
    this.#wall = wall
  }

  /** The lease for an idle document with this last fence; 0: there is none, or the document must be kept for ever. */
  async leaseFor(lastFence: number, timeoutMs: number): Promise<number> {
    if (fenceFloor(this.#wall() + aheadMaxMs) <= lastFence) return 0
    if (!this.#isUsable) {
      this.#granting ??= this.#grant(timeoutMs).finally(() => (this.#granting = undefined))
      await this.#granting
    }
    return this.#isUsable ? (this.#lease?.id ?? 0) : 0
  }

  /** The lease may be gone. */
  forget(): void {
    this.#lease = undefined
  }

  get #isUsable(): boolean {
    return this.#lease !== undefined && this.#ownTime() < this.#lease.until
  }

  /** Never rejects: without the lease a document is only kept for longer. */
  async #grant(timeoutMs: number): Promise<void> {
    const id = randomBytes(6).readUIntBE(0, 6) + 1
    const until = this.#ownTime() + useMs
    try {
      await this.#client.call(calls.grant, grantRequest(id, leaseSeconds), timeoutMs)
      this.#lease = { id, until }
    } catch {
      this.#lease = undefined
    }
  }
}
