import { timerMaxMs } from './duration.ts'
import type { Environment, Timer } from './environment.ts'

/** What `work` resolves with, or undefined if that takes longer than `milliseconds`. Rejects as `work` does. */
export async function within<Result>(
  environment: Environment,
  milliseconds: number,
  work: Promise<Result>,
): Promise<Result | undefined> {
  let timer: Timer | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = environment.timer(milliseconds, () => resolve(undefined))
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
    const timer = setTimeout(() => reject(late(milliseconds)), Math.min(milliseconds, timerMaxMs))
    const settle = (): void => {
      clearTimeout(timer)
      resolve(work)
    }
    work.then(settle, settle)
  })
}
