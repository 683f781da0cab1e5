import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { LockDriver } from '../../src/core/driver.ts'
import { sqlite } from '../../src/drivers/sqlite.ts'
import { clientConformance } from '../../src/testing/index.ts'

clientConformance('sqlite', {
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
})
