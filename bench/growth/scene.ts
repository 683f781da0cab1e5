import type { LockDriver } from '../../src/core/contract/driver.ts'
import type { Costs } from './curve.ts'

/** What a scene is played on. */
export interface SceneSetup {
  /** A new driver of the store, not yet open. */
  driver(): LockDriver
  /** Throws once the time for the point is over. */
  check(): void
}

/** A store with something in place, and the operations that are measured beside it. */
export interface Scene {
  open(): Promise<void>
  /** Puts a size in place. */
  fill(size: number): Promise<void>
  /** Each carries out a few operations once, leaves the size as it was, and resolves to what each operation took. */
  rounds(): readonly (() => Promise<Costs>)[]
  /** Leases that ended though they were renewed, so far. */
  readonly lost: number
  /** The longest that an answer of the store took since the last call, in milliseconds, where the scene knows. */
  longestAnswerMs(): number | undefined
  /** How long to watch a size, so that all its leases are renewed. */
  readonly watchMs: number
  close(): Promise<void>
}

/** Microseconds that work takes. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return (performance.now() - startedAt) * 1000
}
