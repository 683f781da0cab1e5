import { setImmediate as nextTurn } from 'node:timers/promises'
import { createLocks, type CreateLocksOptions } from '../../../src/api/create-locks.ts'
import type { Locks } from '../../../src/api/locks.ts'
import type { LockDriver } from '../../../src/core/contract/driver.ts'
import { memory } from '../../../src/drivers/memory/driver.ts'
import { fakeTime, type FakeTime } from '../../../src/testing/fake-time.ts'

let stores = 0

/** Several clients on one memory store, in fake time. */
export interface LocksBench extends FakeTime {
  /** One more client. */
  readonly client: (options?: Omit<CreateLocksOptions, 'driver' | 'environment'>) => Promise<Locks>
  /** Wraps the driver of every client made from now on. */
  wrap: (driver: LockDriver) => LockDriver
}

/** Makes a bench with a store of its own. */
export function locksBench(): LocksBench {
  const time = fakeTime()
  const name = `bench-${(stores += 1)}`
  const bench: LocksBench = {
    ...time,
    get timers() {
      return time.timers
    },
    wrap: (driver) => driver,
    client: (options) =>
      createLocks({
        ...options,
        driver: bench.wrap(memory({ name, clock: time.clock })),
        environment: time.environment,
      }),
  }
  return bench
}

/** Whether a promise has settled yet. */
export async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false
  promise.then(
    () => (settled = true),
    () => (settled = true),
  )
  for (let turn = 0; turn < 5; turn += 1) await nextTurn()
  return settled
}
