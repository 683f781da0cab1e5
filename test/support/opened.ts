import { onTestFinished } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { createLocks, type Locks } from '../../src/index.ts'

/** The driver, open until the test is over. */
export async function opened(driver: LockDriver): Promise<LockDriver> {
  onTestFinished(() => driver.close())
  await driver.open()
  return driver
}

/** A client over the driver, until the test is over. */
export async function locksOn(driver: LockDriver): Promise<Locks> {
  const locks = await createLocks({ driver })
  onTestFinished(() => locks.close())
  return locks
}
