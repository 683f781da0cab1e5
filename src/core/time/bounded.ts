import { timerMaxMs } from './duration.ts'
import type { Environment, Timer } from './environment.ts'
import { whenRead, type WhenRead } from './event-loop.ts'

/** A limit of time that has not been reached yet. */
export interface TimeLimit {
  cancel(): void
}

/**
 * Runs `action` when `milliseconds` have passed and all that arrived meanwhile has been read. After a long block of the
 * event loop timers fire before sockets are read: an answer that has arrived by then must not count as timed out.
 */
export function timeLimit(milliseconds: number, action: () => void): TimeLimit {
  let reading: WhenRead | undefined
  const timer = setTimeout(
    () => {
      reading = whenRead(action)
    },
    Math.min(milliseconds, timerMaxMs),
  )
  return {
    cancel() {
      clearTimeout(timer)
      reading?.cancel()
    },
  }
}

/** Runs `action` when all that has arrived by now has been read; at once in a simulator, where nothing is read later. */
export function afterReading(environment: Environment, action: () => void): void {
  if (environment.afterReading === undefined) action()
  else environment.afterReading(action)
}

/** What `work` resolves with, or undefined if that takes longer than `milliseconds`. Rejects as `work` does. */
export async function settledWithin<Result>(
  environment: Environment,
  milliseconds: number,
  work: Promise<Result>,
): Promise<Result | undefined> {
  let timer: Timer | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = environment.timer(milliseconds, () => afterReading(environment, () => resolve(undefined)))
    timer.keepAlive(true)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    timer?.cancel()
  }
}

/** Settles as `work` does, or rejects with what `late` makes once `milliseconds` have passed. */
export function inTime<Result>(
  milliseconds: number,
  work: PromiseLike<Result>,
  late: (milliseconds: number) => unknown,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const limit = timeLimit(milliseconds, () => reject(late(Math.round(milliseconds))))
    const settle = (): void => {
      limit.cancel()
      resolve(work)
    }
    work.then(settle, settle)
  })
}
