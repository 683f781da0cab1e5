import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import { LeaseholdError } from '../../core/errors.ts'
import { isBusy } from './faults.ts'
import { replacedReason } from './replaced-file.ts'

/** Attempts in a row: a transaction of another process takes less time than a turn of our event loop. */
const triesAtOnce = 3
/** Attempts a turn of the event loop apart. */
const triesByTurn = 12
/**
 * Attempts between two pauses, a turn apart as well. A process that writes without a pause leaves the file free for some microseconds at a
 * time, and who tries but once a pause finds it taken nearly always.
 */
const triesBetweenPauses = 6
const pauseMaxMs = 8
/** With so many pauses behind it, an attempt has found something that lasts, and waits longer each time. */
const shortPauses = 20

/**
 * Runs `attempt` until the file is neither busy nor being replaced, and throws that error only after `busyTimeoutMs`.
 * Never blocks the event loop for longer than an attempt takes.
 */
export async function retryWhileBusy<Result>(attempt: () => Result, busyTimeoutMs: number): Promise<Result> {
  const startedAt = performance.now()
  for (let tries = 1, pauses = 0; ; tries += 1) {
    const late = tries - triesAtOnce - triesByTurn
    if (late > 0 && late % triesBetweenPauses === 1) {
      pauses += 1
      // Random pause, so that the processes do not collide again.
      await pause(1 + Math.random() * Math.min(pauseMaxMs, Math.max(0, pauses - shortPauses)))
    } else if (tries > triesAtOnce) await nextTurn()
    try {
      return attempt()
    } catch (error) {
      if (!isPassing(error) || performance.now() - startedAt > busyTimeoutMs) throw error
    }
  }
}

function isPassing(error: unknown): boolean {
  return isBusy(error) || (error instanceof LeaseholdError && error.reason === replacedReason)
}
