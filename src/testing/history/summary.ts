import type { Attempt } from './attempt.ts'
import type { Granted } from './overlap.ts'

/** Figures of a history: a run with few grants and hand-overs proves nothing. */
export interface HistorySummary {
  readonly attempts: number
  readonly holds: number
  /** Times the lock went from one client to another. */
  readonly handOvers: number
  readonly clients: number
  /** Holds of the client that had fewest and most. */
  readonly turnsMin: number
  readonly turnsMax: number
  /** From the call of release to the return of the acquire that was waiting for it. */
  readonly handOverMs: { readonly p50: number; readonly p90: number; readonly p99: number; readonly max: number }
}

/** Sums up attempts of all keys; `grantsByKey` are those that were granted. @internal */
export function summarise(attempts: readonly Attempt[], grantsByKey: Iterable<readonly Granted[]>): HistorySummary {
  const turns = new Map(attempts.map(({ client }) => [client, 0]))
  const delays: number[] = []
  let holds = 0
  let handOvers = 0
  for (const grants of grantsByKey) {
    let last: Granted | undefined
    for (const granted of grants.toSorted((a, b) => a.grant.fence - b.grant.fence)) {
      holds += 1
      turns.set(granted.client, (turns.get(granted.client) ?? 0) + 1)
      if (last !== undefined && last.client !== granted.client) {
        handOvers += 1
        const delay = granted.grant.returnedAt - last.grant.heldUntil
        if (granted.invokedAt < last.grant.heldUntil && delay > 0) delays.push(delay)
      }
      last = granted
    }
  }
  delays.sort((a, b) => a - b)
  const percentile = (share: number) => delays[Math.min(delays.length - 1, Math.floor(delays.length * share))] ?? 0
  const counts = [...turns.values()]
  return {
    attempts: attempts.length,
    holds,
    handOvers,
    clients: turns.size,
    turnsMin: counts.length === 0 ? 0 : Math.min(...counts),
    turnsMax: counts.length === 0 ? 0 : Math.max(...counts),
    handOverMs: { p50: percentile(0.5), p90: percentile(0.9), p99: percentile(0.99), max: delays.at(-1) ?? 0 },
  }
}
