import { LeaseholdError } from '../../core/errors.ts'
import { loadFirst, type OptionalPackage } from '../../core/machine/optional-package.ts'
import { nearest } from '../../core/contract/option-names.ts'
import type { Connections } from './connections.ts'
import { PgConnections } from './pg-connections.ts'
import { PostgresJsConnections, postgresJs } from './postgres-js-connections.ts'

const nodePostgres: OptionalPackage<'pg'> = { name: 'pg', fits: ['8.11'] }

/** Longer than a request waits by default, so that a busy pool is not taken for a network that is down. */
const connectMs = 6000

/** Connections to a URL, by whichever client package is installed: `pg`, else `postgres`. */
export async function openUrl(url: string, poolSize: number): Promise<Connections> {
  const { name, module } = await loadFirst<'pg' | 'postgres'>('A postgres driver', [nodePostgres, postgresJs])
  if (name === 'pg') {
    const { default: pg } = module as { readonly default: typeof import('pg') }
    const pool = new pg.Pool({
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
  const { default: postgres } = module as { readonly default: typeof import('postgres') }
  const sql = postgres(url, { max: poolSize, connect_timeout: connectMs / 1000, onnotice: () => {} })
  return new PostgresJsConnections(sql, true)
}

/** Our parameters of a URL; each driver reads some. All others are the client's. */
const ownParameters = ['schema', 'poolSize', 'unlogged', 'ttl'] as const
type OwnParameter = (typeof ownParameters)[number]

/** The values of the parameters that a driver reads, and the URL for the client, without them. */
export function postgresParameters(
  url: string,
  reads: readonly OwnParameter[],
): { readonly url: string; readonly options: ReadonlyMap<OwnParameter, string> } {
  const options = new Map<OwnParameter, string>()
  let parsed: URL
  try {
    parsed = new URL(url)
  } catch {
    // Without a cause: Node's error repeats the URL, with its password.
    throw new LeaseholdError('INVALID', 'The URL of the database cannot be read. Use postgres://user@host:5432/name.')
  }
  for (const [name, value] of parsed.searchParams) {
    const own = reads.find((known) => known === name)
    if (own === undefined) refuseIfMeantForUs(name, reads)
    else options.set(own, value)
  }
  for (const name of reads) parsed.searchParams.delete(name)
  return { url: parsed.toString(), options }
}

/** What a prefix is in Redis and etcd is a schema here. */
export const prefixHint = { prefix: "It is 'schema' here." }

/** Refuses a parameter that looks like one of ours: the client would ignore it. */
function refuseIfMeantForUs(name: string, reads: readonly OwnParameter[]): void {
  const isOfSister = (ownParameters as readonly string[]).includes(name)
  const meant = nearest(name, reads)
  const isPrefix = name === 'prefix'
  if (!isOfSister && !isPrefix && meant === undefined) return
  const hint = isPrefix ? ` ${prefixHint.prefix}` : isOfSister || meant === undefined ? '' : ` Did you mean '${meant}'?`
  const what = `The URL of this store takes no ?${name}=.${hint}`
  throw new LeaseholdError('INVALID', `${what} Besides what the client knows it takes ${reads.join(', ')}.`)
}
