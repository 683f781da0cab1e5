import { memory, type MemoryClock } from '../../src/drivers/memory/driver.ts'
import { conformance, modelTest, type Bench, type Harness } from '../../src/testing/index.ts'

let stores = 0

const harness: Harness = {
  async open(): Promise<Bench> {
    let time = 5_000
    const clock: MemoryClock = { now: () => time, wall: () => 1_700_000_000_000 + time }
    const next = () => `memory-test-${(stores += 1)}`
    let name = next()
    return {
      async driver() {
        const driver = memory({ name, clock })
        await driver.open()
        return driver
      },
      async advance(ms) {
        time += ms
      },
      async empty() {
        name = next()
      },
      async close() {},
    }
  },
}

conformance('memory', harness)
modelTest('memory', harness, { runs: 500 })
