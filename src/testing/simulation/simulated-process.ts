import type { Environment, Timer } from '../../core/time/environment.ts'
import type { World } from './world.ts'

/** A process in a world. All that happens in it comes in through `enter`: so it can be stopped for a while, or ended. */
export class SimulatedProcess {
  readonly environment: Environment
  /** How fast its clock runs, by true time. */
  readonly rate: number
  readonly killed: Promise<void>
  readonly #world: World
  #stoppedUntil = 0
  #alive = true
  #notifyKilled: () => void = () => {}
  readonly #timersAlive = new Set<Timer>()

  /** `wallOf` sets its wall clock, by the right one. */
  constructor(world: World, rate: number, wallOf = (wallMs: number): number => wallMs) {
    const worldEnvironment = world.environment(rate)
    this.#world = world
    this.rate = rate
    this.killed = new Promise((resolve) => (this.#notifyKilled = resolve))
    this.environment = {
      ...worldEnvironment,
      wall: () => wallOf(worldEnvironment.wall()),
      timer: (delayMs, action) => {
        let wanted = true
        // If the timer is due while the process is stopped, the process may still cancel it first when it goes on.
        const ring = (): void => {
          this.#timersAlive.delete(timer)
          if (wanted) action()
        }
        const timer = worldEnvironment.timer(delayMs, () => this.enter(ring))
        return {
          keepAlive: (alive) => void (alive ? this.#timersAlive.add(timer) : this.#timersAlive.delete(timer)),
          cancel: () => {
            wanted = false
            this.#timersAlive.delete(timer)
            timer.cancel()
          },
        }
      },
    }
  }

  /** Whether the process has not been killed; it may be stopped. */
  get isAlive(): boolean {
    return this.#alive
  }

  /** Whether code runs in it now. */
  get runs(): boolean {
    return this.#alive && this.#world.now >= this.#stoppedUntil
  }

  /** Timers without which the process would end, if nothing else kept it. */
  get timersAlive(): number {
    return this.#timersAlive.size
  }

  /** Runs an action that comes from outside: now, when the process goes on, or never if it is killed. */
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
    this.#notifyKilled()
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.environment.timer(ms, resolve))
  }
}
