import path from 'node:path'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import { conformance, modelTest, type Bench, type Harness } from '../../src/testing/index.ts'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'
import { rounds } from '../support/extent.ts'

/** `fewHoldersMax`: up to how many holders are read as a list. */
const harnessOf = (fewHoldersMax?: number): Harness => ({
  async open(): Promise<Bench> {
    const directory = makeFolder('sqlite')
    let time = 5_000
    const clock = { now: () => time, wall: () => 1_700_000_000_000 + time }
    let files = 1
    let drivers: LockDriver[] = []
    const closeAll = async () => {
      for (const driver of drivers) await driver.close()
      drivers = []
    }
    return {
      async driver() {
        const driver = sqlite({ file: path.join(directory, `${files}.sqlite`), environment: { clock, fewHoldersMax } })
        drivers.push(driver)
        await driver.open()
        return driver
      },
      async advance(ms) {
        time += ms
      },
      restart: closeAll,
      async empty() {
        await closeAll()
        files += 1
      },
      async close() {
        await closeAll()
        removeFolder(directory)
      },
    }
  },
})

conformance('sqlite', harnessOf())
modelTest('sqlite', harnessOf(), { runs: rounds(150, 300) })
modelTest('sqlite that searches among its holders', harnessOf(1), { runs: rounds(150, 300) })
