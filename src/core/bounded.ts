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
