import path from 'node:path'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import type { Harness } from '../../src/testing/index.ts'
import { realTimeBench } from '../support/real-time-bench.ts'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'

/** Lock files in a folder of their own, in real time. */
export const sqliteHarness: Harness = {
  apart: true,
  async open() {
    const folder = makeFolder('client')
    return realTimeBench(
      () => sqlite({ file: path.join(folder, 'locks.sqlite') }),
      () => removeFolder(folder),
    )
  },
}
