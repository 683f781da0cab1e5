import path from 'node:path'
import { afterEach } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { sqlite, type SqliteOptions } from '../../src/drivers/sqlite/driver.ts'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'

/** A directory for each test, and drivers that are closed after it. */
export function scratch(): {
  readonly file: (name?: string) => string
  readonly driver: (options: SqliteOptions) => Promise<LockDriver>
} {
  let directory: string | undefined
  let drivers: LockDriver[] = []
  afterEach(async () => {
    for (const driver of drivers) await driver.close()
    drivers = []
    if (directory !== undefined) removeFolder(directory)
    directory = undefined
  })
  return {
    file(name = 'locks.sqlite') {
      directory ??= makeFolder('sqlite')
      return path.join(directory, name)
    },
    async driver(options) {
      const driver = sqlite(options)
      drivers.push(driver)
      await driver.open()
      return driver
    },
  }
}
