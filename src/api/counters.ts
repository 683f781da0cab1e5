import type { EventName, LockEvents } from '../core/events.ts'

/** Names whose last holding time is remembered: those used last. */
const namesMax = 1000

/** Counts what a client does. The names follow the events; `metrics.ts` gives them their published names. */
export class Counters {
  readonly events = new Map<EventName, number>()
  /** Stale or dead holders taken over from. */
  staleClaimed = 0
  /** Milliseconds from asking to holding, over all acquisitions. */
  acquisitionMs = 0
  readonly #holdMs = new Map<string, number>()

  /** Counts an event of the lock with this store key. */
  count<Name extends EventName>(
    name: Name,
    key: string,
    details: Omit<LockEvents[Name], 'scope' | 'key' | 'fence'>,
  ): void {
    this.events.set(name, (this.events.get(name) ?? 0) + 1)
    if (name === 'acquired') this.acquisitionMs += (details as unknown as LockEvents['acquired']).waitMs
    if (name === 'stale') this.staleClaimed += 1
    if (name === 'released' || name === 'lost') {
      this.#noteHold(key, (details as unknown as LockEvents['released']).heldMs)
    }
  }

  of(name: EventName): number {
    return this.events.get(name) ?? 0
  }

  /** How long each lock was held the last time, by its store key. */
  get holdDurations(): ReadonlyMap<string, number> {
    return this.#holdMs
  }

  #noteHold(key: string, heldMs: number): void {
    this.#holdMs.set(key, heldMs)
    if (this.#holdMs.size > namesMax) for (const oldest of this.#holdMs.keys()) return void this.#holdMs.delete(oldest)
  }
}
