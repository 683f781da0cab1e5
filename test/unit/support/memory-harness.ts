import { memory } from '../../../src/drivers/memory/driver.ts'
import type { Harness } from '../../../src/testing/index.ts'
import { realTimeBench } from '../../support/real-time-bench.ts'

let stores = 0

/** Memory stores in real time. */
export const memoryHarness: Harness = {
  apart: true,
  async open() {
    const name = `memory-client-test-${(stores += 1)}`
    return realTimeBench(() => memory({ name }))
  },
}
