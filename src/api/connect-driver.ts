import type { LockDriver } from '../core/driver.ts'
import { LeaseholdError } from '../core/errors.ts'

/** The driver for a URL, not opened yet. A driver's code is loaded only when it is asked for. */
export async function driverFor(url: string): Promise<LockDriver> {
  const { scheme, rest } = splitUrl(url)
  switch (scheme) {
    case 'memory': {
      const { memory } = await import('../drivers/memory.ts')
      return memory(rest === '' ? {} : { name: rest })
    }
    case 'sqlite': {
      const { sqlite } = await import('../drivers/sqlite.ts')
      return sqlite(rest === '' ? {} : { file: rest })
    }
    case 'postgres':
    case 'postgresql': {
      const { postgres } = await import('../drivers/postgres.ts')
      return postgres(url)
    }
    case 'postgres-advisory': {
      const { postgresAdvisory } = await import('../drivers/postgres-advisory.ts')
      return postgresAdvisory(`postgres:${rest}`)
    }
    default:
      throw new LeaseholdError(
        'INVALID',
        `There is no store for '${scheme}:'. Use memory:, sqlite:FILE, postgres:// or postgres-advisory://.`,
      )
  }
}

/** The parts of a store's URL. */
export function splitUrl(url: string): { readonly scheme: string; readonly rest: string } {
  const [, scheme, rest] = (typeof url === 'string' ? /^([a-z][a-z0-9+.-]*):(.*)$/s.exec(url) : null) ?? []
  if (scheme !== undefined && rest !== undefined) return { scheme, rest }
  throw new LeaseholdError('INVALID', `${JSON.stringify(url)} is not the URL of a store. Use, say, sqlite:locks.db.`)
}
