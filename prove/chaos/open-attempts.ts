import type { HistoryEvent } from '../../src/testing/index.ts'

/** The attempts of living clients that still wait or hold, each in words. */
export function openAttempts(events: readonly HistoryEvent[], now: number): string[] {
  const open = new Map<string, { readonly client: string; readonly key: string; state: string; since: number }>()
  for (const event of events) {
    if (event.type === 'acquire') {
      const { client, key, at } = event
      open.set(event.attempt, { client, key, state: 'waits', since: at })
    } else if (event.type === 'granted') {
      const attempt = open.get(event.attempt)
      if (attempt !== undefined) Object.assign(attempt, { state: 'holds', since: event.at })
    } else if (event.type === 'release' || event.type === 'refused' || event.type === 'lost') {
      open.delete(event.attempt)
    } else if (event.type === 'crash') {
      for (const [attempt, { client }] of open) if (client === event.client) open.delete(attempt)
    }
  }
  return Array.from(
    open,
    ([attempt, { key, state, since }]) => `${attempt} ${state} for ${Math.round(now - since)} ms: ${key}`,
  )
}
