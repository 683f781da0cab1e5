/** How often to try again, and how long to pause before each try. */
export interface Backoff {
  /** Attempts in all; Infinity: no limit. */
  readonly attempts: number
  readonly minMs: number
  readonly maxMs: number
  readonly factor: number
  /** 0.2 varies each pause at random by up to a fifth either way. */
  readonly jitter: number
}

/** The presets of the `retry` option. */
export const retryPresets = {
  none: { attempts: 1, minMs: 100, maxMs: 5000, factor: 2, jitter: 0.2 },
  standard: { attempts: 10, minMs: 100, maxMs: 5000, factor: 2, jitter: 0.2 },
  aggressive: { attempts: 50, minMs: 100, maxMs: 5000, factor: 2, jitter: 0.2 },
} as const satisfies Record<string, Backoff>

/** For polling a store that cannot push: starts quick, grows gently, never slower than 0.8 s. @internal */
export const adaptivePolling: Backoff = { attempts: Infinity, minMs: 10, maxMs: 800, factor: 1.5, jitter: 0.2 }

/** Pauses grow no longer after so many failures in a row. */
const growingPausesMax = 65

/** The sum of all pauses that a backoff allows, leaving jitter aside. @internal */
export function pausesMs(backoff: Backoff): number {
  if (backoff.attempts === Infinity) return Infinity
  const pauses = backoff.attempts - 1
  const growing = Math.min(pauses, growingPausesMax)
  let sumMs = (pauses - growing) * pauseMs(backoff, growingPausesMax, 0.5)
  for (let failures = 1; failures <= growing; failures += 1) sumMs += pauseMs(backoff, failures, 0.5)
  return sumMs
}

/** The pause after the `failures`-th failure in a row, counting from 1. `random` is from 0 to 1. @internal */
export function pauseMs(backoff: Backoff, failures: number, random: number): number {
  const { minMs, maxMs, factor, jitter } = backoff
  const grown = Math.min(maxMs, minMs * factor ** (Math.min(failures, growingPausesMax) - 1))
  const spread = grown * (1 + jitter * (2 * random - 1))
  return Math.min(maxMs, Math.max(minMs, spread))
}
