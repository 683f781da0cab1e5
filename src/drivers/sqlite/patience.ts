import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import { isBusy } from './faults.ts'

/** Tries in a row: a transaction of another process takes less time than a turn of our event loop. */
const triesAtOnce = 3
/** Tries a turn of the event loop apart. */
const triesByTurn = 12
const pauseMaxMs = 8

/**
 * Runs `attempt` until SQLite no longer answers that the file is busy, and throws that answer only after `patienceMs`.
 * Never blocks the event loop for longer than an attempt takes.
 */
export async function persist<Result>(attempt: () => Result, patienceMs: number): Promise<Result> {
  const startedAt = performance.now()
  for (let tries = 1; ; tries += 1) {
    if (tries > triesAtOnce + triesByTurn) {
      // Processes that collided must not collide again.
      await pause(1 + Math.random() * Math.min(pauseMaxMs, tries - triesAtOnce - triesByTurn))
    } else if (tries > triesAtOnce) await nextTurn()
    try {
      return attempt()
    } catch (error) {
      if (!isBusy(error) || performance.now() - startedAt > patienceMs) throw error
    }
  }
}
