import { LeaseholdError } from '../../core/errors.ts'
import type { Connections } from './connections.ts'
import { PgConnections } from './pg-connections.ts'
import { PostgresJsConnections } from './postgres-js-connections.ts'

/** Longer than a request waits, unless told otherwise: then it is known that the pool was busy, not the network down. */
const connectMs = 6000

/** Connections to a URL, by whichever client package is installed: `pg`, else `postgres`. */
export async function openUrl(url: string, poolSize: number): Promise<Connections> {
  const pg = await load(() => import('pg'))
  if (pg !== undefined) {
    const pool = new pg.default.Pool({
      connectionString: url,
      max: poolSize,
      connectionTimeoutMillis: connectMs,
      keepAlive: true,
      // Idle connections do not keep a process from ending.
      allowExitOnIdle: true,
      application_name: 'leasehold',
    })
    return new PgConnections(pool, true)
  }
  const postgres = await load(() => import('postgres'))
  if (postgres !== undefined) {
    const sql = postgres.default(url, { max: poolSize, connect_timeout: connectMs / 1000, onnotice: () => {} })
    return new PostgresJsConnections(sql, true)
  }
  throw new LeaseholdError('UNAVAILABLE', 'The postgres drivers need pg or postgres. Run: npm install pg', {
    reason: 'configuration',
  })
}

async function load<Module>(importing: () => Promise<Module>): Promise<Module | undefined> {
  try {
    return await importing()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND') return undefined
    throw error
  }
}

/** What a URL says beside where the database is, and the URL without it. */
export function urlOptions(url: string): { readonly url: string; readonly options: ReadonlyMap<string, string> } {
  const options = new Map<string, string>()
  let parsed: URL
  try {
    parsed = new URL(url)
  } catch (cause) {
    throw new LeaseholdError('INVALID', 'The URL of the database cannot be read. Use postgres://user@host:5432/name.', {
      cause,
    })
  }
  for (const name of ['schema', 'poolSize', 'unlogged', 'ttl']) {
    const value = parsed.searchParams.get(name)
    if (value !== null) options.set(name, value)
    parsed.searchParams.delete(name)
  }
  return { url: parsed.toString(), options }
}
