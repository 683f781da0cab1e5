import { setTimeout as pause } from 'node:timers/promises'
import { monotonicMs } from '../../src/core/machine/machine-clock.ts'
import { ServerClock } from '../../test/support/server-clock.ts'
import type { StoreFault } from './store.ts'

/** More than a ttl. */
const jumpMs = 3000

/** The wall clock of a store's servers, which jumps in either direction while they run. */
export class JumpingClock {
  readonly #clock = new ServerClock()
  #offsetMs = 0
  /** When the clock shows again what it has shown before. */
  #caughtUpAt = 0
  #lostAt = -Infinity

  get environment(): Readonly<Record<string, string>> {
    return this.#clock.environment
  }

  readonly faults: Readonly<Record<string, StoreFault>> = {
    // Leases end early.
    'clock set ahead': { forgets: true, begin: () => this.#jump(jumpMs) },
    'clock set back': { begin: () => this.#jump(-jumpMs) },
  }

  /**
   * To be awaited before a fault that loses data: resolves once the clock is past everything it has shown. A store that loses its
   * data and whose clock is then behind may repeat a fence, as its page says.
   */
  async beforeLoss(): Promise<void> {
    await pause(Math.max(0, this.#caughtUpAt - monotonicMs()))
    this.#lostAt = monotonicMs()
  }

  remove(): void {
    this.#clock.remove()
  }

  async #jump(byMs: number): Promise<() => void> {
    // Nor may it show again a time before the data was lost.
    if (byMs < 0) await pause(Math.max(0, this.#lostAt - byMs - monotonicMs()))
    this.#offsetMs += byMs
    if (byMs < 0) this.#caughtUpAt = Math.max(this.#caughtUpAt, monotonicMs()) - byMs
    else this.#caughtUpAt -= byMs
    this.#clock.set(this.#offsetMs)
    return () => {}
  }
}
