import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach } from 'vitest'
import type { LockDriver } from '../../src/core/driver.ts'
import { sqlite, type SqliteOptions } from '../../src/drivers/sqlite.ts'

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
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true })
    directory = undefined
  })
  return {
    file(name = 'locks.sqlite') {
      directory ??= mkdtempSync(path.join(tmpdir(), 'leasehold-'))
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

/** Resolves with the first value that is not undefined; rejects after `withinMs`. */
export async function until<Value>(
  look: () => Value | undefined | Promise<Value | undefined>,
  what: string,
  withinMs = 10_000,
): Promise<Value> {
  const deadline = performance.now() + withinMs
  for (;;) {
    const value = await look()
    if (value !== undefined) return value
    if (performance.now() > deadline) throw new Error(`${what} did not come about within ${withinMs} ms.`)
    await pause(2)
  }
}
