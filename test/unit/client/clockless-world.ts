import type { LockDriver } from '../../../src/core/contract/driver.ts'
import type { Environment } from '../../../src/core/time/environment.ts'
import { documentDriver, type ClocklessStore } from '../../../src/drivers/document/driver.ts'
import { clocklessOverNetwork, type NetworkLink } from '../../../src/testing/simulation/network.ts'
import { SimulatedProcess } from '../../../src/testing/simulation/simulated-process.ts'
import type { World } from '../../../src/testing/simulation/world.ts'
import { ClocklessShelf } from '../support/clockless-shelf.ts'

/** Clocks of processes run at up to a twentieth more or less than true time. */
const mostOff = 0.05
export const fastestRate = 1 + mostOff
const hourMs = 3_600_000
/** Quick enough for the short leases of a tour. */
const polling = { minMs: 20, maxMs: 200, keysPerSecondMax: 100 }

/** A store without a clock, and processes whose clocks agree in nothing. */
export class ClocklessWorld {
  readonly #world: World
  readonly #shelf = new ClocklessShelf()
  /** Sees everything, by the fastest clock that a process may have: no observer ends a lease earlier. */
  readonly watcher: LockDriver

  constructor(world: World) {
    this.#world = world
    const fastest = world.environment(fastestRate)
    this.watcher = documentDriver(this.#store(), { ...fastest, wall: () => world.now * fastestRate })
  }

  /** A process with a clock that may be as wrong as they get, and a wall clock up to an hour off. */
  process(): SimulatedProcess {
    const world = this.#world
    const rate = world.chance(0.5)
      ? 1 + (world.chance(0.5) ? mostOff : -mostOff)
      : 1 + (2 * world.random() - 1) * mostOff
    const offMs = (2 * world.random() - 1) * hourMs
    return new SimulatedProcess(world, rate, (wallMs) => wallMs + offMs)
  }

  driverOver(line: NetworkLink, environment: Environment): LockDriver {
    return documentDriver(clocklessOverNetwork(line, this.#store()), environment)
  }

  #store(): ClocklessStore<number> {
    return this.#shelf.store(polling)
  }
}
