const pauseMaxMs = 100

/**
 * Attempts `work` again while `isWorthAnother` says that it may pass, with pauses that grow to a tenth of a second. No attempt begins in
 * the second half of `withinMs`: an attempt needs time of its own.
 */
export async function retryingWithin<Result>(
  withinMs: number,
  work: (leftMs: number) => Promise<Result>,
  isWorthAnother: (error: unknown) => boolean,
): Promise<Result> {
  const startedAt = performance.now()
  let leftMs = withinMs
  for (let tries = 1; ; tries += 1) {
    try {
      return await work(Math.max(1, leftMs))
    } catch (error) {
      leftMs = withinMs - (performance.now() - startedAt)
      if (leftMs < withinMs / 2 || !isWorthAnother(error)) throw error
    }
    // Random pause, so that two transactions that collided do not collide again.
    await pause(Math.random() * Math.min(pauseMaxMs, 5 * 2 ** tries))
    leftMs = withinMs - (performance.now() - startedAt)
  }
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds)
  })
}
