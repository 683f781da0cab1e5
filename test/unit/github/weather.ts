import type { Environment, Timer } from '../../../src/core/time/environment.ts'
import type { World } from '../../../src/testing/simulation/world.ts'

/** One client's machine and its line to GitHub, both with faults. */
export class Weather {
  readonly #world: World
  #cutUntil = 0
  #failingUntil = 0
  #slowUntil = 0
  #crawlingUntil = 0
  #stoppedUntil = 0

  constructor(world: World) {
    this.#world = world
  }

  /** Stops the machine, cuts the line or slows it down, again and again. */
  injectFaults(until: number): void {
    const world = this.#world
    const again = (): void => {
      if (world.now >= until) return
      const { now } = world
      const kind = world.between(0, 3)
      if (kind === 0) this.#stoppedUntil = now + world.between(1000, 90_000)
      if (kind === 1) this.#slowUntil = now + world.between(1000, 60_000)
      if (kind === 2) this.#cutUntil = now + world.between(20_000, 60_000)
      if (kind === 3) this.#failingUntil = now + world.between(5000, 50_000)
      world.at(world.between(30_000, 120_000), again)
    }
    world.at(world.between(0, 60_000), again)
  }

  /** After a first renewal, errors for most of a lease, and slow writes after that: the next one arrives too late. */
  beset(leaseMs: number): void {
    const world = this.#world
    world.at(0.4 * leaseMs, () => {
      this.#failingUntil = world.now + world.between(0.5 * leaseMs, 0.8 * leaseMs)
      this.#crawlingUntil = this.#failingUntil + 0.3 * leaseMs
    })
  }

  /** Nothing arrives. */
  get isCut(): boolean {
    return this.#world.now < this.#cutUntil
  }

  /** Everything is answered with an error. */
  get isFailing(): boolean {
    return this.#world.now < this.#failingUntil
  }

  /** One way between client and GitHub. */
  async travel(leg: 'there' | 'back', method: string): Promise<void> {
    const world = this.#world
    const crawls = leg === 'there' && method !== 'GET' && !this.isFailing && world.now < this.#crawlingUntil
    const slow = world.now < this.#slowUntil && world.chance(0.5)
    if (crawls) await world.wait(world.between(5000, 13_000))
    else await world.wait(slow ? world.between(100, 14_000) : world.between(5, 300))
    if (leg === 'there') return
    // A message to a stopped machine waits until it goes on.
    while (world.now < this.#stoppedUntil) await world.wait(this.#stoppedUntil - world.now)
  }

  /** An environment whose timers wait while the machine is stopped. */
  environment(rate: number): Environment {
    const world = this.#world
    const plain = world.environment(rate)
    return {
      ...plain,
      timer: (delayMs, action) => {
        let current: Timer
        const guarded = (): void => {
          const restMs = this.#stoppedUntil - world.now
          if (restMs <= 0) action()
          else current = plain.timer(restMs * rate, guarded)
        }
        current = plain.timer(delayMs, guarded)
        return { cancel: () => current.cancel(), keepAlive: () => {} }
      },
    }
  }
}
