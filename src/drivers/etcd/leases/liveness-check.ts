/**
 * Sees to it that a dead process is not waited for longer because etcd changes its leader.
 *
 * Every new leader gives every lease its whole time again, also those of processes that died long ago. So whoever waits
 * behind a claim that outlived a change of leader asks for a sign of life: it puts a question beside the marker of the claim. A
 * renewal reads the question with the marker, since it reads both at once, and nobody is told that the claim is held before
 * the marker was put anew. What the owner was told before the question was put it trusts for one ttl at most. So a question
 * that nobody has answered for a whole ttl, on the clock of whoever waits, is about a claim that nobody trusts any more, and its
 * marker is removed: decision 080.
 */
import type { ClaimRecord } from '../../../core/rule/claim-record.ts'
import type { Environment, Timer } from '../../../core/time/environment.ts'
import type { BatchedTransactions } from '../batched-transactions.ts'
import type { GarbageLease } from './garbage-lease.ts'
import type { EtcdKeyspace } from '../keyspace.ts'
import type { Leases } from './leases.ts'
import { exists, put, range, remove, unchangedSince, type KeyValue } from '../rpc/messages.ts'
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

/** A claim that one of ours waits for. */
interface Blocker {
  readonly id: string
  readonly ttlMs: number
  /** The term in which it was first seen, or last known to live. */
  term: number
  isProbed: boolean
  timer: Timer | undefined
}

/** A question as it was put, and the marker it is about. */
interface Probe {
  readonly revision: number
  readonly markerRevision: number
}

/** Claims of one key that are asked at once: mostly one holds, or one is next in line. */
const blockersMax = 10
/** How much longer than a ttl an answer is waited for: clocks run differently, and a holder stops a little early anyway. */
const ttlFactor = 1.1
const marginMs = 100
/** When to try again what etcd did not answer. */
const againMs = 1000

export class LivenessCheck {
  readonly #setup: LivenessCheckSetup
  readonly #keys = new Map<string, Map<string, Blocker>>()
  #closed = false

  constructor(setup: LivenessCheckSetup) {
    this.#setup = setup
  }

  /** Looks at those whom claims of ours wait for, as they were just read. */
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

  /** Nobody of ours waits there any more. */
  forget(key: string): void {
    for (const { timer } of this.#keys.get(key)?.values() ?? []) timer?.cancel()
    this.#keys.delete(key)
  }

  close(): void {
    this.#closed = true
    for (const key of this.#keys.keys()) this.forget(key)
  }

  /** The one before the first of ours; those that hold, where ours is the first in line. Not our own, which we know of. */
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
    const asked = term()
    const probe = await this.#put(key, blocker.id).catch(() => undefined)
    if (probe === 'none') {
      blocker.isProbed = false
      blocker.term = asked
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
   * Puts the question, or finds that of somebody else. `none`: it was answered, or the claim is over, or its driver would not
   * answer. Undefined: it could not be put.
   */
  async #put(key: string, id: string): Promise<Probe | 'none' | undefined> {
    const { transactions, keyspace, garbage, timeoutMs } = this.#setup
    const [marker, name] = [keyspace.marker(key, id), keyspace.probe(key, id)]
    const lease = await garbage.leaseFor(0, timeoutMs)
    if (lease === 0) return undefined
    // A driver of an earlier version does not know of questions.
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
      { compare: [], success: names.map((key) => range({ key })) },
      timeoutMs,
    )
    return replies.map((reply) => reply.range?.pairs[0])
  }

  /** Removes the marker of a claim that nobody has answered for. Those who wait hear that it is gone. */
  async #end(key: string, blocker: Blocker, { revision, markerRevision }: Probe): Promise<void> {
    const { transactions, keyspace, term, timeoutMs } = this.#setup
    const [marker, name] = [keyspace.marker(key, blocker.id), keyspace.probe(key, blocker.id)]
    const asked = term()
    const compare = [unchangedSince(name, revision), unchangedSince(marker, markerRevision)]
    const success = [remove(marker), remove(name)]
    const outcome = await transactions.execute({ compare, success }, timeoutMs).catch(() => undefined)
    if (outcome === undefined) {
      this.#later(key, blocker, againMs, () => this.#end(key, blocker, { revision, markerRevision }))
      return
    }
    // It was answered, or is over.
    blocker.isProbed = false
    blocker.term = asked
  }

  #later(key: string, blocker: Blocker, delayMs: number, action: () => Promise<void>): void {
    if (this.#closed || this.#keys.get(key)?.get(blocker.id) !== blocker) return
    blocker.timer = this.#setup.environment.timer(delayMs, () => void action())
  }
}
