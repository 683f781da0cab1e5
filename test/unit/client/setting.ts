import type { LeaseProof } from '../../../src/index.ts'
import type { LoggedWish } from '../../../src/testing/history/event.ts'
import type { RunLogSetting } from '../../../src/testing/simulation/run-log.ts'
import type { Traces } from './traces.ts'
import type { TrustWatch } from './trust-watch.ts'

/** A lease between two processes. */
export interface PassedLease {
  readonly proof: LeaseProof
  readonly wanted: LoggedWish
  /** The attempt that was granted it. */
  readonly origin: string
  /** When somebody finds the proof. */
  readonly foundAt: number
  /** The ttl that each attempt to resume asks for. */
  readonly ttlMs: number | undefined
  /** The same proof was given away twice: two processes may resume it, and neither is promised anything. */
  readonly twice: boolean
}

/**
 * What a tour is about, so that what is rare meets often. Reads: one lock, for many readers or one writer. Renewals: one that
 * is held for long and renewed for ttls of every length. Permits: a semaphore whose number is being changed.
 */
export type Subject = 'everything' | 'reads' | 'renewals' | 'hand-offs' | 'permits' | 'web locks'

/** Where a worker lives, and what it may do there. */
export interface Setting extends RunLogSetting {
  readonly traces: Traces
  readonly trust: TrustWatch
  /** Workers in the middle of a turn. */
  readonly waiting: Set<string>
  /** Leases that were handed off, for any process to resume. */
  readonly passed: PassedLease[]
  /** Whether the store keeps a queue. */
  readonly queues: boolean
  readonly about: Subject
  /** Whether it only takes over what others hand off: who waits for a lock finds no proofs. */
  readonly receives: boolean
}
