/**
 * Keeps a change of etcd's leader from making waiters wait longer for a dead process.
 *
 * Every new leader gives every lease its whole time again, also the leases of processes that died long ago. So a driver whose
 * claim waits behind a claim that outlived a change of leader puts a liveness probe beside that claim's marker. A renewal reads
 * the probe together with the marker, and no owner is told that it holds before the marker was put again. Before the probe was
 * put, an owner was told to trust one ttl at most. So if a probe was not answered for a whole ttl, on the clock of the driver
 * that waits, no owner trusts the claim any more, and its marker is removed: decision 080.
 */
import type { ClaimRecord } from '../../../core/rule/claim-record.ts'
import type { Environment, Timer } from '../../../core/time/environment.ts'
import type { BatchedTransactions } from '../batched-transactions.ts'
import type { GarbageLease } from './garbage-lease.ts'
import type { EtcdKeyspace } from '../keyspace.ts'
import type { Leases } from './leases.ts'
import { exists, put, rangeOperation, remove, unchangedSince, type KeyValue } from '../rpc/messages.ts'
import type { KeptClaim } from './claim-keeper.ts'
import type { KeyReading } from '../key-reading.ts'
import { answersProbes } from '../key-writer.ts'

export interface LivenessCheckSetup {
  readonly transactions: Pick<BatchedTransactions, 'execute'>
  readonly keyspace: EtcdKeyspace
  readonly leases: Pick<Leases, 'leftMs'>
  readonly garbage: Pick<GarbageLease, 'leaseFor'>
  readonly environment: Environment
  /** The term in which etcd last answered. */
  readonly term: () => number
  readonly timeoutMs: number
}

/** A claim that a claim of ours waits for. */
interface Blocker {
  readonly id: string
  readonly ttlMs: number
  /** The term in which the claim was first seen, or last known to live. */
  term: number
  isProbed: boolean
  timer: Timer | undefined
}

/** The revisions of a probe as it was put, and of the marker beside it. */
interface Probe {
  readonly revision: number
  readonly markerRevision: number
}

/** Claims of one key that are probed at once: mostly there is one holder, or one claim ahead. */
const blockersMax = 10
/** An answer may take a ttl and a little more: clocks run differently, and a holder stops a little early anyway. */
const ttlFactor = 1.1
const marginMs = 100
/** After what time an unanswered call is tried again. */
const againMs = 1000

export class LivenessCheck {
  readonly #setup: LivenessCheckSetup
  readonly #keys = new Map<string, Map<string, Blocker>>()
  #closed = false

  constructor(setup: LivenessCheckSetup) {
    this.#setup = setup
  }

  /** Probes the claims that claims of ours wait for, as just read, if the term has changed since. */
  check(key: string, reading: KeyReading | undefined, waiting: readonly KeptClaim[]): void {
    if (this.#closed || reading?.document === undefined) return
    const term = this.#setup.term()
    const before = this.#keys.get(key) ?? new Map<string, Blocker>()
    const after = new Map<string, Blocker>()
    for (const { claim, ttlMs } of this.#blockers(reading, waiting)) {
      const { id } = claim
      const blocker = before.get(id) ?? { id, ttlMs, term, isProbed: false, timer: undefined }
      after.set(id, blocker)
      if (blocker.term < term && !blocker.isProbed) void this.#probe(key, blocker)
    }
    for (const [id, { timer }] of before) if (!after.has(id)) timer?.cancel()
    this.#keys.set(key, after)
  }

  /** No claim of ours waits for the key any more. */
  forget(key: string): void {
    for (const { timer } of this.#keys.get(key)?.values() ?? []) timer?.cancel()
    this.#keys.delete(key)
  }

  close(): void {
    this.#closed = true
    for (const key of this.#keys.keys()) this.forget(key)
  }

  /** The claim ahead of our first waiter; the holders, if our waiter is next in line. Claims of this driver are left out. */
  #blockers({ document, markers }: KeyReading, waiting: readonly KeptClaim[]): readonly ClaimRecord[] {
    const { leases } = this.#setup
    const claims = document?.claims ?? []
    const ours = new Set(waiting.map(({ id }) => id))
    const first = claims.findIndex(({ claim }) => ours.has(claim.id))
    const previous = claims[first - 1]
    const blockers = previous?.state === 'waiting' ? [previous] : claims.filter(({ state }) => state === 'held')
    return blockers
      .filter(({ claim }) => leases.leftMs(markers.get(claim.id) ?? 0) === undefined && markers.has(claim.id))
      .slice(0, blockersMax)
  }

  async #probe(key: string, blocker: Blocker): Promise<void> {
    blocker.isProbed = true
    const { term } = this.#setup
    const termBefore = term()
    const probe = await this.#put(key, blocker.id).catch(() => undefined)
    if (probe === 'none') {
      blocker.isProbed = false
      blocker.term = termBefore
      return
    }
    if (probe === undefined) {
      this.#later(key, blocker, againMs, () => this.#probe(key, blocker))
      return
    }
    // Leases are in whole seconds, and a renewal may have asked for the rest of one.
    const ttlMs = Math.ceil(blocker.ttlMs / 1000) * 1000
    this.#later(key, blocker, ttlMs * ttlFactor + marginMs, () => this.#end(key, blocker, probe))
  }

  /**
   * Puts the probe, or finds one that another driver put. `none`: it was answered, the claim is over, or its driver is too old
   * to answer. Undefined: it could not be put.
   */
  async #put(key: string, id: string): Promise<Probe | 'none' | undefined> {
    const { transactions, keyspace, garbage, timeoutMs } = this.#setup
    const [marker, name] = [keyspace.marker(key, id), keyspace.probe(key, id)]
    const lease = await garbage.leaseFor(0, timeoutMs)
    if (lease === 0) return undefined
    // A driver of an earlier version does not answer probes.
    const found = await this.#read([marker, name])
    if (found[0]?.value.toString() !== answersProbes) return 'none'
    if (found[1] === undefined) {
      const compare = [exists(marker), unchangedSince(name, 0)]
      await transactions.execute({ compare, success: [put(name, '', lease)] }, timeoutMs)
    }
    const [stored, probe] = await this.#read([marker, name])
    // Answered already, or over.
    if (stored === undefined || probe === undefined) return 'none'
    return { revision: probe.modRevision, markerRevision: stored.modRevision }
  }

  async #read(names: readonly string[]): Promise<(KeyValue | undefined)[]> {
    const { transactions, timeoutMs } = this.#setup
    const { replies } = await transactions.execute(
      { compare: [], success: names.map((key) => rangeOperation({ key })) },
      timeoutMs,
    )
    return replies.map((reply) => reply.range?.pairs[0])
  }

  /** Removes the marker of a claim whose probe was not answered. Its watchers see the marker go. */
  async #end(key: string, blocker: Blocker, { revision, markerRevision }: Probe): Promise<void> {
    const { transactions, keyspace, term, timeoutMs } = this.#setup
    const [marker, name] = [keyspace.marker(key, blocker.id), keyspace.probe(key, blocker.id)]
    const termBefore = term()
    const compare = [unchangedSince(name, revision), unchangedSince(marker, markerRevision)]
    const success = [remove(marker), remove(name)]
    const outcome = await transactions.execute({ compare, success }, timeoutMs).catch(() => undefined)
    if (outcome === undefined) {
      this.#later(key, blocker, againMs, () => this.#end(key, blocker, { revision, markerRevision }))
      return
    }
    // It was answered, or is over.
    blocker.isProbed = false
    blocker.term = termBefore
  }

  #later(key: string, blocker: Blocker, delayMs: number, action: () => Promise<void>): void {
    if (this.#closed || this.#keys.get(key)?.get(blocker.id) !== blocker) return
    blocker.timer = this.#setup.environment.timer(delayMs, () => void action())
  }
}
