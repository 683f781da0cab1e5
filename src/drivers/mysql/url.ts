import { LeaseholdError } from '../../core/errors.ts'
import { nearest } from '../../core/contract/option-names.ts'
import { loadFirst, type OptionalPackage } from '../../core/machine/optional-package.ts'
import { decodedPart, hostAndPort, type HostAndPort } from '../kit/url.ts'
import type { MysqlPromisePool } from './clients.ts'

/** What a URL says. */
export interface MysqlAddress extends HostAndPort {
  readonly scheme: 'mysql' | 'mariadb'
  readonly user: string | undefined
  readonly password: string | undefined
  readonly database: string
  /** What it says to us. */
  readonly options: { readonly table?: string; readonly poolSize?: number }
  /** What it says to the client package. */
  readonly clientOptions: Readonly<Record<string, unknown>>
}

const ownParameters = ['table', 'poolSize'] as const

/** `mysql://user:password@host:3306/database?table=locks&poolSize=8`; other parameters are the client's. */
export function mysqlParameters(url: string): MysqlAddress {
  const invalid = (): LeaseholdError =>
    // Without the URL, which has a password.
    new LeaseholdError('INVALID', 'The URL of the database cannot be read. Use mysql://user@host:3306/database.')
  const [, scheme, login, place = '', database = '', query = ''] =
    /^(mysql|mariadb):\/\/(?:([^/?#]*)@)?([^/?#@]*)\/([^/?#]+)\/?(?:\?([^#]*))?$/s.exec(url) ?? []
  if (scheme === undefined) throw invalid()
  const [user, password] = login === undefined ? [] : (login.split(/:(.*)/s) as [string, string | undefined])
  const clientOptions: Record<string, unknown> = {}
  const options: { table?: string; poolSize?: number } = {}
  for (const [name, value] of new URLSearchParams(query)) {
    if (name === 'table') options.table = value
    else if (name === 'poolSize') options.poolSize = value.trim() === '' ? Number.NaN : Number(value)
    else clientOptions[clientOption(name)] = valueOf(value)
  }
  return {
    scheme: scheme as MysqlAddress['scheme'],
    ...hostAndPort(place, 3306, invalid),
    user: user === undefined ? undefined : decodedPart(user, invalid),
    password: password === undefined ? undefined : decodedPart(password, invalid),
    database: decodedPart(database, invalid),
    options,
    clientOptions,
  }
}

/** Refuses a parameter that looks like one of ours: the client would ignore it. */
function clientOption(name: string): string {
  const meant = nearest(name, ownParameters)
  if (meant === undefined && name !== 'prefix') return name
  const hint = name === 'prefix' ? "It is 'table' here." : `Did you mean '${meant}'?`
  throw new LeaseholdError('INVALID', `The URL of this store takes no ?${name}=. ${hint}`)
}

/** As the clients read the values of URLs: numbers, true and objects of JSON, else text. */
function valueOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return text
  }
}

type ClientPackage = 'mysql2' | 'mariadb'
const mysql2: OptionalPackage<ClientPackage> = { name: 'mysql2', fits: ['3'] }
const mariadb: OptionalPackage<ClientPackage> = { name: 'mariadb', fits: ['3'] }

/** Longer than a request waits by default, so that a busy pool is not taken for a network that is down. */
const connectMs = 6000

/** A pool for a URL, by whichever client package is installed; the one that the scheme names comes first. */
export async function mysqlPool(address: MysqlAddress, poolSize: number): Promise<MysqlPromisePool> {
  const { scheme, host, port, user, password, database, clientOptions } = address
  const common = { connectTimeout: connectMs, ...clientOptions, host, port, user, password, database }
  const packages = scheme === 'mariadb' ? ([mariadb, mysql2] as const) : ([mysql2, mariadb] as const)
  const { name, module } = await loadFirst<ClientPackage>('The mysql driver', packages)
  const { default: client } = module as { readonly default: { createPool(options: object): unknown } }
  if (name === 'mariadb') {
    // Connections are made when they are needed, and not kept alive by a timer.
    const limits = { connectionLimit: poolSize, minimumIdle: 0, acquireTimeout: connectMs }
    return client.createPool({ ...common, ...limits }) as MysqlPromisePool
  }
  const pool = client.createPool({ enableKeepAlive: true, ...common, connectionLimit: poolSize })
  return (pool as { promise(): MysqlPromisePool }).promise()
}
