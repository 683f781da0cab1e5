import type { LockDriver } from '../../src/core/contract/driver.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { Observations } from '../../src/drivers/document/observed/observations.ts'
import { ObservedDriver } from '../../src/drivers/document/observed/observed-driver.ts'
import { s3Store, type S3Options } from '../../src/drivers/s3/driver.ts'
import { fakeTime, type Harness } from '../../src/testing/index.ts'
import { freshS3Prefix, type S3Server } from './s3-server.ts'

/** A prefix of its own for each bench. One clock for all drivers, which only the bench moves, and each has seen every write at once. */
export function s3Harness(server: S3Server, options: S3Options = {}): Harness {
  return {
    conversionsBeginAnew: true,
    async open() {
      const time = fakeTime()
      const real = systemEnvironment()
      // Pauses after lost races pass by themselves.
      const environment = { ...time.environment, timer: real.timer.bind(real) }
      let observations = new Observations()
      const prefix = freshS3Prefix()
      const drivers: LockDriver[] = []
      return {
        async driver() {
          const store = s3Store({ ...server.options(prefix), timeout: '60s', waitMax: '2s', ...options })
          const driver = new ObservedDriver(store, environment, { observations, watching: real })
          drivers.push(driver)
          await driver.open()
          return driver
        },
        advance: (ms) => time.advance(ms),
        async empty() {
          await server.removeAll(prefix)
          observations = new Observations()
        },
        async close() {
          await Promise.all(drivers.map((driver) => driver.close()))
        },
      }
    },
  }
}
