import { memory } from '../../../src/drivers/memory.ts'
import type { Harness } from '../../../src/testing/index.ts'

let stores = 0

/** Memory stores in real time. */
export const memoryHarness: Harness = {
  apart: true,
  async open() {
    const name = `memory-client-test-${(stores += 1)}`
    return {
      async driver() {
        const driver = memory({ name })
        await driver.open()
        return driver
      },
      advance: (ms) => new Promise((resolve) => void setTimeout(resolve, ms)),
      async close() {},
    }
  },
}
