import type { EventName, LockEvents } from './events.ts'

/** Names whose last holding time is remembered at least: those used last. */
const namesMin = 1000

/** Counts what a client does. The names follow the events; `statistics.ts` gives them their published names. */
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
  /** Of the names used last, and of those before them: to move one name to the end would cost more than all the rest. */
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

  /** Counts what happens most, without an event having been made of it. */
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
