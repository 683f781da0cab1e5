import { systemEnvironment, type Environment } from '../../src/core/environment.ts'
import { memory, type MemoryClock } from '../../src/drivers/memory.ts'
import { quorum } from '../../src/drivers/quorum.ts'
import { conformance, modelTest, type Bench, type Harness } from '../../src/testing/index.ts'

let stores = 0

/** So many memory stores with one clock, whose fences are this far apart. */
function harnessOf(nodes: number, fenceGap: number): Harness {
  return {
    async open(): Promise<Bench> {
      let time = 5_000
      let names: string[] = []
      const rename = (): void => {
        names = Array.from({ length: nodes }, () => `quorum-${(stores += 1)}`)
      }
      rename()
      const clockOf = (place: number): MemoryClock => ({
        now: () => time,
        wall: () => 1_700_000_000_000 + time + (place * fenceGap) / 1000,
      })
      const environment: Environment = { ...systemEnvironment(), now: () => time }
      return {
        async driver() {
          const drivers = names.map((name, place) => memory({ name, clock: clockOf(place) }))
          const driver = quorum(drivers, { votesAfter: 0, drift: 0, environment })
          await driver.open()
          return driver
        },
        async advance(ms) {
          time += ms
        },
        async empty() {
          rename()
        },
        async close() {},
      }
    },
  }
}

conformance('a quorum of three', harnessOf(3, 0))
conformance('a quorum of five', harnessOf(5, 0))
conformance('a quorum of three whose fences are far apart', harnessOf(3, 1000))
modelTest('a quorum of three', harnessOf(3, 0), { runs: 300 })
modelTest('a quorum of five', harnessOf(5, 0), { runs: 100 })
