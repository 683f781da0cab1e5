import { truncateSync } from 'node:fs'
import { checkHistory, readHistory, type HistoryEvent, type HistoryReport } from '../../src/testing/index.ts'

/** A time in which the store may have forgotten what it had granted. */
export interface Forgetting {
  readonly from: number
  readonly to: number
}

/** From when until when a key had a holder, as far as that is certain. */
export interface HoldSpan {
  readonly key: string
  readonly from: number
  readonly to: number
}

export interface RoundReport extends HistoryReport {
  readonly spans: readonly HoldSpan[]
  readonly events: readonly HistoryEvent[]
}

/**
 * Checks what clients wrote, a round at a time: at its end nobody holds anything. The highest fence of each key goes into
 * the next round.
 */
export class RoundHistory {
  readonly #highest = new Map<string, HistoryEvent[]>()

  /** Checks and empties the logs. */
  check(logs: readonly string[], forgettings: readonly Forgetting[]): RoundReport {
    const own = readHistory(logs)
    for (const log of logs) truncateSync(log)
    const earlier = [...this.#highest.values()].flat()
    const events = [...earlier, ...own, ...endsByForgetting(own, forgettings)].toSorted((a, b) => a.at - b.at)
    this.#keepHighest(own)
    // Who lost a connection has lost its place: no turns are promised then.
    return { ...checkHistory(events, { fair: false }), spans: spansOf(own), events: own }
  }

  #keepHighest(events: readonly HistoryEvent[]): void {
    const wanted = new Map<string, Extract<HistoryEvent, { type: 'acquire' }>>()
    for (const event of events) {
      if (event.type === 'acquire') wanted.set(event.attempt, event)
      if (event.type !== 'granted') continue
      const acquire = wanted.get(event.attempt)
      if (acquire === undefined) continue
      const [, granted] = this.#highest.get(acquire.key) ?? []
      if (granted?.type === 'granted' && granted.fence >= event.fence) continue
      this.#highest.set(acquire.key, [acquire, event, { type: 'release', attempt: event.attempt, at: event.at }])
    }
  }
}

/**
 * If a store forgets, no hold of that time is certain any more: those granted before it, and those asked for before its end.
 * Their fences must be right all the same.
 */
function endsByForgetting(events: readonly HistoryEvent[], forgettings: readonly Forgetting[]): HistoryEvent[] {
  if (forgettings.length === 0) return []
  const invoked = new Map<string, number>()
  const ends: HistoryEvent[] = []
  for (const event of events) {
    if (event.type === 'acquire') invoked.set(event.attempt, event.at)
    if (event.type !== 'granted') continue
    const asked = invoked.get(event.attempt) ?? event.at
    for (const { from, to } of forgettings) {
      if (asked <= to) ends.push({ type: 'lost', attempt: event.attempt, at: Math.max(from, event.at) })
    }
  }
  return ends
}

function spansOf(events: readonly HistoryEvent[]): HoldSpan[] {
  const open = new Map<string, { key: string; client: string; from?: number; deadline: number }>()
  const spans: HoldSpan[] = []
  const close = (attempt: string, at: number): void => {
    const hold = open.get(attempt)
    open.delete(attempt)
    if (hold?.from !== undefined) spans.push({ key: hold.key, from: hold.from, to: Math.min(at, hold.deadline) })
  }
  for (const event of events) {
    if (event.type === 'acquire') {
      open.set(event.attempt, { key: event.key, client: event.client, deadline: Infinity })
    } else if (event.type === 'granted') {
      const hold = open.get(event.attempt)
      if (hold !== undefined) Object.assign(hold, { from: event.at, deadline: event.deadline ?? Infinity })
    } else if (event.type === 'renewed') {
      const hold = open.get(event.attempt)
      if (hold !== undefined && event.at < hold.deadline) hold.deadline = event.deadline
    } else if (event.type === 'release' || event.type === 'lost' || event.type === 'refused') {
      close(event.attempt, event.at)
    } else if (event.type === 'crash') {
      for (const [attempt, { client }] of open) if (client === event.client) close(attempt, event.at)
    }
  }
  return spans
}
