import type { EventName, LockEvents } from './events.ts'

/** For how many names, those used last, the hold duration is kept at least. */
const namesMin = 1000

/** Counts the events of a client, by the names of the events. `statistics.ts` has the published names. */
export class ClientCounters {
  readonly #events: Record<EventName, number> = {
    waiting: 0,
    contention: 0,
    acquired: 0,
    takeover: 0,
    stale: 0,
    renewed: 0,
    'renewal-failed': 0,
    jeopardy: 0,
    leaving: 0,
    lost: 0,
    released: 0,
    'passed-on': 0,
    failed: 0,
  }
  /** Stale or dead holders taken over from. */
  staleClaimed = 0
  /** Milliseconds from asking to holding, over all acquisitions. */
  acquisitionMs = 0
  /** Hold durations of the names used last, and of those before. Moving a name to the end of one map would cost more than the rest. */
  #holdMs = new Map<string, number>()
  #olderHoldMs = new Map<string, number>()

  /** Counts an event of the lock with this store key. */
  count<Name extends EventName>(
    name: Name,
    key: string,
    details: Omit<LockEvents[Name], 'scope' | 'key' | 'fence'>,
  ): void {
    if (name === 'acquired') return this.countAcquisition((details as unknown as LockEvents['acquired']).waitMs)
    if (name === 'released') return this.countRelease(key, (details as unknown as LockEvents['released']).heldMs)
    this.#events[name] += 1
    if (name === 'stale') this.staleClaimed += 1
    if (name === 'lost') this.#noteHold(key, (details as unknown as LockEvents['lost']).heldMs)
  }

  /** Counts an acquisition, like the methods below without an event object: these are the most frequent. */
  countAcquisition(waitMs: number): void {
    this.#events.acquired += 1
    this.acquisitionMs += waitMs
  }

  countRenewal(): void {
    this.#events.renewed += 1
  }

  countRelease(key: string, heldMs: number): void {
    this.#events.released += 1
    this.#noteHold(key, heldMs)
  }

  of(name: EventName): number {
    return this.#events[name]
  }

  /** How long each lock was held the last time, by its store key. */
  get holdDurations(): ReadonlyMap<string, number> {
    return new Map([...this.#olderHoldMs, ...this.#holdMs])
  }

  #noteHold(key: string, heldMs: number): void {
    this.#holdMs.set(key, heldMs)
    if (this.#holdMs.size < namesMin) return
    this.#olderHoldMs = this.#holdMs
    this.#holdMs = new Map()
  }
}
