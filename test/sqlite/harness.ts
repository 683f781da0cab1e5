import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { LockDriver } from '../../src/core/driver.ts'
import { sqlite } from '../../src/drivers/sqlite.ts'
import type { Harness } from '../../src/testing/index.ts'

/** Lock files in a folder of their own, in real time. */
export const sqliteHarness: Harness = {
  apart: true,
  async open() {
    const folder = mkdtempSync(path.join(tmpdir(), 'leasehold-client-'))
    const drivers: LockDriver[] = []
    return {
      async driver() {
        const driver = sqlite({ file: path.join(folder, 'locks.sqlite') })
        await driver.open()
        drivers.push(driver)
        return driver
      },
      advance: (ms) => new Promise((resolve) => void setTimeout(resolve, ms)),
      async close() {
        for (const driver of drivers) await driver.close()
        rmSync(folder, { recursive: true, force: true })
      },
    }
  },
}
