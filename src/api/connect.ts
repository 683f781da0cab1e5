import type { LockDriver } from '../core/driver.ts'
import { LeaseholdError } from '../core/errors.ts'
import { openLocks, type LocksOptions } from './create-locks.ts'
import type { Locks } from './locks.ts'

export type ConnectOptions = LocksOptions

/** Connects to the store a URL names: `memory:`, `memory:NAME`, `sqlite:FILE` … and opens its locks. */
export async function connect(url: string, options: ConnectOptions = {}): Promise<Locks> {
  return openLocks({ ...options, driver: await driverFor(url) })
}

/** The driver for a URL. A driver's code is loaded only when it is asked for. */
export async function driverFor(url: string): Promise<LockDriver> {
  const [scheme, rest] = splitUrl(url)
  switch (scheme) {
    case 'memory': {
      const { memory } = await import('../drivers/memory.ts')
      return memory(rest === '' ? {} : { name: rest })
    }
    case 'sqlite': {
      const { sqlite } = await import('../drivers/sqlite.ts')
      return sqlite(rest === '' ? {} : { file: rest })
    }
    default:
      throw new LeaseholdError(
        'INVALID',
        `There is no store for ${JSON.stringify(`${scheme}:`)}. Use memory: or sqlite:FILE.`,
      )
  }
}

function splitUrl(url: string): [scheme: string, rest: string] {
  const match = typeof url === 'string' ? /^([a-z][a-z0-9+.-]*):(.*)$/s.exec(url) : null
  if (match === null) {
    throw new LeaseholdError('INVALID', `${JSON.stringify(url)} is not the URL of a store. Use, say, sqlite:locks.db.`)
  }
  return [match[1] as string, match[2] as string]
}
