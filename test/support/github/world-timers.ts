import { vi } from 'vitest'
import { makeOctokit } from '../../../src/drivers/github/api/octokit.ts'
import type { World } from '../../../src/testing/simulation/world.ts'

// Loads octokit while timers are real: Vitest itself needs them to find a package.
await makeOctokit({ token: 'none', baseUrl: undefined, fetch: undefined })

/** Gives code that knows no other timers than the global ones, octokit's plugins, the time of a simulated world. */
export function useWorldTimers(world: World, startsAt: number): Disposable {
  const now = vi.spyOn(Date, 'now').mockImplementation(() => startsAt + world.now)
  const timerOf = (cancel: () => void): object => {
    const timer = { cancel, ref: () => timer, unref: () => timer, hasRef: () => true }
    return timer
  }
  const clear = (timer: unknown): void => (timer as { cancel(): void } | undefined)?.cancel()
  vi.stubGlobal('setTimeout', (action: (...words: unknown[]) => void, delayMs = 0, ...words: unknown[]) => {
    const timer = world.at(delayMs, () => action(...words))
    return timerOf(() => timer.cancel())
  })
  vi.stubGlobal('setInterval', (action: () => void, delayMs = 1) => {
    let timer = world.at(delayMs, again)
    function again(): void {
      timer = world.at(delayMs, again)
      action()
    }
    return timerOf(() => timer.cancel())
  })
  vi.stubGlobal('clearTimeout', clear)
  vi.stubGlobal('clearInterval', clear)
  return {
    [Symbol.dispose]() {
      now.mockRestore()
      vi.unstubAllGlobals()
    },
  }
}
