import type { LockDriver } from '../../src/core/contract/driver.ts'
import { fullSupport } from '../../src/core/contract/supports.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { Observations } from '../../src/drivers/document/observed/observations.ts'
import { ObservedDriver } from '../../src/drivers/document/observed/observed-driver.ts'
import { dialNats } from '../../src/drivers/nats/client.ts'
import { NatsStore } from '../../src/drivers/nats/store.ts'
import { parseNatsUrl } from '../../src/drivers/nats/url.ts'
import { fakeTime, type Harness } from '../../src/testing/index.ts'
import type { NatsServer } from './nats-server.ts'

let buckets = 0

/** A bucket that nobody else uses. */
export const freshBucket = (): string => `bucket-${(buckets += 1)}`

/** A bucket of its own for each bench, and one clock for all its drivers, each of which has seen every write at once. */
export function natsHarness(
  server: NatsServer,
  { restart, tickMs }: { readonly restart?: () => Promise<void>; readonly tickMs?: number } = {},
): Harness {
  return {
    ...(tickMs !== undefined && { tickMs }),
    conversionsBeginAnew: true,
    async open() {
      const time = fakeTime()
      const real = systemEnvironment()
      // Pauses after lost races pass by themselves.
      const environment = { ...time.environment, timer: real.timer.bind(real) }
      const bucket = freshBucket()
      const address = parseNatsUrl(server.url)
      let observations = new Observations()
      const drivers: LockDriver[] = []
      return {
        async driver() {
          const store = new NatsStore({
            bucket,
            replicas: 1,
            syncAlways: true,
            timeoutMs: 5000,
            polling: { minMs: 5, maxMs: 20, keysPerSecondMax: 10_000 },
            supports: fullSupport,
            source: () => dialNats(address, undefined, 5000),
          })
          const driver = new ObservedDriver(store, environment, { observations, watching: real })
          drivers.push(driver)
          await driver.open()
          return driver
        },
        advance: (ms) => time.advance(ms),
        ...(restart !== undefined && { restart }),
        async empty() {
          await server.api(`STREAM.PURGE.KV_${bucket}`)
          observations = new Observations()
        },
        async close() {
          await Promise.all(drivers.map((driver) => driver.close()))
          await server.api(`STREAM.DELETE.KV_${bucket}`).catch(() => {})
        },
      }
    },
  }
}
