import { setTimeout as pause } from 'node:timers/promises'

/** Calls `find` until it returns something, and resolves with that. Rejects after `withinMs`, which only a fault should reach. */
export async function eventually<Found>(
  find: () => Found | undefined | false | null | Promise<Found | undefined | false | null>,
  subject: string,
  withinMs = 90_000,
): Promise<Found> {
  const deadline = performance.now() + withinMs
  for (;;) {
    const found = await find()
    if (found !== undefined && found !== false && found !== null) return found
    if (performance.now() > deadline) throw new Error(`${subject} did not come within ${withinMs} ms.`)
    await pause(10)
  }
}
