import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import type { Harness } from '../../src/testing/index.ts'
import { realTimeBench } from '../support/real-time-bench.ts'

/** Lock files in a folder of their own, in real time. */
export const sqliteHarness: Harness = {
  apart: true,
  async open() {
    const folder = mkdtempSync(path.join(tmpdir(), 'leasehold-client-'))
    return realTimeBench(
      () => sqlite({ file: path.join(folder, 'locks.sqlite') }),
      () => rmSync(folder, { recursive: true, force: true }),
    )
  },
}
