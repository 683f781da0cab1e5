import { setTimeout as pause } from 'node:timers/promises'
import { memory } from '../../src/drivers/memory/driver.ts'
import { clientConformance, primitivesConformance, type Harness } from '../../src/testing/index.ts'
import { servedBench } from '../support/served-store.ts'

let stores = 0

/** Servers in front of memory stores, in real time. */
const harness: Harness = {
  apart: true,
  async open() {
    const name = `http-client-test-${(stores += 1)}`
    return servedBench({ make: () => memory({ name }), advance: (ms) => pause(ms) })
  },
}

clientConformance('http', harness)
primitivesConformance('http', harness)
