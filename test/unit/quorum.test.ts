import type { LockDriver } from '../../src/core/contract/driver.ts'
import { systemEnvironment, type Environment } from '../../src/core/time/environment.ts'
import { memory, type MemoryClock } from '../../src/drivers/memory/driver.ts'
import { quorum } from '../../src/drivers/quorum/driver.ts'
import { conformance, modelTest, type Bench, type Harness } from '../../src/testing/index.ts'
import { rounds } from '../support/extent.ts'

let stores = 0

/** So many memory stores with one clock. The first counts fences from further below, the last are dead. */
function harnessOf(nodes: number, { fenceGap = 0, dead = 0 } = {}): Harness {
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
        wall: () => 1_700_000_000_000 + time + (place === 0 ? 0 : fenceGap / 1000),
      })
      // In order: a node that lags may have minted a higher fence than was told, and tells its own as the story.
      const defer = (action: () => void): void => void Promise.resolve().then(() => process.nextTick(action))
      const environment: Environment = { ...systemEnvironment(), now: () => time, defer }
      return {
        async driver() {
          const drivers = names.map((name, place) => {
            const driver = memory({ name, clock: clockOf(place) })
            return place < nodes - dead ? driver : unreachable(driver)
          })
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

function unreachable(driver: LockDriver): LockDriver {
  const refuse = (): Promise<never> => Promise.reject(new Error('connection refused'))
  const { name, supports } = driver
  return { name, supports, open: async () => {}, send: refuse, list: refuse, close: async () => {} }
}

conformance('a quorum of three', harnessOf(3))
conformance('a quorum of five', harnessOf(5))
conformance('a quorum of three, one of them dead', harnessOf(3, { dead: 1 }))
conformance('a quorum of three whose fences are far apart', harnessOf(3, { fenceGap: 1000 }))
modelTest('a quorum of three', harnessOf(3), { runs: rounds(120, 300) })
modelTest('a quorum of five, two of them dead', harnessOf(5, { dead: 2 }), { runs: 100 })
