import type { Environment } from '../../../src/core/environment.ts'
import type { World } from '../../support/world.ts'

/** A process in a world. All that happens in it comes in through `enter`: so it can be stopped for a while, or ended. */
export class SimulatedProcess {
  readonly environment: Environment
  /** How fast its clock runs, by true time. */
  readonly rate: number
  readonly killed: Promise<void>
  readonly #world: World
  #stoppedUntil = 0
  #alive = true
  #tellKilled: () => void = () => {}

  constructor(world: World, rate: number) {
    const surroundings = world.environment(rate)
    this.#world = world
    this.rate = rate
    this.killed = new Promise((resolve) => (this.#tellKilled = resolve))
    this.environment = {
      ...surroundings,
      timer: (delayMs, action) => {
        let wanted = true
        // It may be due while the process stands still, and be cancelled first when that goes on.
        const timer = surroundings.timer(delayMs, () => this.enter(() => wanted && action()))
        return {
          ...timer,
          cancel: () => {
            wanted = false
            timer.cancel()
          },
        }
      },
    }
  }

  /** Whether code runs in it now. */
  get runs(): boolean {
    return this.#alive && this.#world.now >= this.#stoppedUntil
  }

  /** Does what comes in from outside: now, when the process goes on, or never. */
  enter(action: () => void): void {
    if (!this.#alive) return
    if (this.runs) action()
    else this.#world.at(this.#stoppedUntil - this.#world.now, () => this.enter(action))
  }

  /** As SIGSTOP and SIGCONT do. */
  stopFor(ms: number): void {
    this.#stoppedUntil = this.#world.now + ms
  }

  /** As SIGKILL does. */
  kill(): void {
    this.#alive = false
    this.#tellKilled()
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.environment.timer(ms, resolve))
  }
}
