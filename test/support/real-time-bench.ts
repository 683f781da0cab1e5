import { setTimeout as pause } from 'node:timers/promises'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import type { Bench } from '../../src/testing/index.ts'

/** A bench on a store whose time passes by itself: `make` gives one more driver on it, `discard` throws it away. */
export function realTimeBench(make: () => LockDriver, discard: () => Promise<unknown> | void = () => {}): Bench {
  const drivers: LockDriver[] = []
  return {
    async driver() {
      const driver = make()
      drivers.push(driver)
      await driver.open()
      return driver
    },
    advance: (ms) => pause(ms),
    async close() {
      await Promise.all(drivers.map((driver) => driver.close()))
      await discard()
    },
  }
}
