import { LeaseholdError } from '../../core/errors.ts'
import type { Connections } from './connections.ts'
import { isSchemaMissing } from './faults.ts'
import advisorySql from './advisory.sql.generated.ts'
import changesSql from './functions/changes.sql.generated.ts'
import claimsSql from './functions/claims.sql.generated.ts'
import evictionSql from './functions/eviction.sql.generated.ts'
import listingSql from './functions/listing.sql.generated.ts'
import promotionSql from './functions/promotion.sql.generated.ts'
import requestsSql from './functions/requests.sql.generated.ts'
import sendSql from './functions/send.sql.generated.ts'
import turnsSql from './functions/turns.sql.generated.ts'
import typesSql from './functions/types.sql.generated.ts'
import tablesSql from './tables.sql.generated.ts'

export interface SchemaOptions {
  /** Where the tables and functions live. `leasehold` unless told. */
  readonly schema?: string
  /** True: the tables are not written to the log. Quicker, and emptied by a crash of the server. */
  readonly unlogged?: boolean
}

/** The format of the tables and the revision of the functions that this version makes. */
const tablesFormat = 1
const functionsRevision = 5

/** The rule beside the data. In this order: some use others when they are made. */
const functionsSql = [
  typesSql,
  claimsSql,
  changesSql,
  promotionSql,
  evictionSql,
  requestsSql,
  turnsSql,
  sendSql,
  listingSql,
].join('\n')

/** Any number: those who make a schema at the same time take turns. */
const makingLock = 7_240_618_953_041

/** The SQL that makes the schema, for people who run their own migrations. Safe to run again. */
export function postgresSchema(options: SchemaOptions = {}): string {
  const { schema = 'leasehold', unlogged = false } = options
  const versions = `insert into leasehold.format (tables, functions) values (${tablesFormat}, ${functionsRevision})
  on conflict (one) do update set functions = greatest(format.functions, excluded.functions);\n`
  const sql = `${tablesSql.replaceAll('@table@', unlogged ? 'unlogged table' : 'table')}\n${functionsSql}\n${versions}`
  return inSchema(sql, schema)
}

/** SQL written for the schema `leasehold`, for another one. */
export function inSchema(sql: string, schema: string): string {
  if (schema === 'leasehold') return sql
  if (!/^[a-z_][a-z0-9_]{0,47}$/.test(schema)) {
    throw new LeaseholdError(
      'INVALID',
      `The schema ${JSON.stringify(schema)} is not usable. Use up to 48 lower-case letters, digits or '_'.`,
    )
  }
  // Quoted, for it may be a word of SQL. Not in the name of a setting.
  return sql.replaceAll(/\bleasehold(?=[.;])(?!\.session)/g, `"${schema}"`)
}

/** Makes what the schema lacks. Any number of processes may do so at once. */
export async function makeSchema(connections: Connections, options: SchemaOptions, withinMs: number): Promise<void> {
  const { schema = 'leasehold' } = options
  const found = await versionsOf(connections, schema, withinMs)
  if (found !== undefined && found.tables > tablesFormat) {
    const what = `The schema ${schema} has format ${found.tables}; this version reads ${tablesFormat}.`
    throw new LeaseholdError('UNAVAILABLE', `${what} Update Leasehold here.`, { reason: 'foreign' })
  }
  if (found !== undefined && found.functions >= functionsRevision) return
  // Several statements in one message are one transaction.
  await connections.script(`select pg_advisory_xact_lock(${makingLock});\n${postgresSchema(options)}`, withinMs)
}

async function versionsOf(
  connections: Connections,
  schema: string,
  withinMs: number,
): Promise<{ readonly tables: number; readonly functions: number } | undefined> {
  try {
    const text = inSchema('select tables, functions from leasehold.format', schema)
    const [row] = await connections.query(text, [], withinMs)
    return row === undefined ? undefined : { tables: Number(row['tables']), functions: Number(row['functions']) }
  } catch (error) {
    if (isSchemaMissing(error)) return undefined
    throw error
  }
}

/** The SQL that makes what advisory locks need, for people who run their own migrations. Safe to run again. */
export function postgresAdvisorySchema(options: Pick<SchemaOptions, 'schema'> = {}): string {
  return inSchema(advisorySql, options.schema ?? 'leasehold')
}

/** Makes what advisory locks need. Any number of processes may do so at once. */
export async function makeAdvisorySchema(connections: Connections, schema: string, withinMs: number): Promise<void> {
  const sql = inSchema(`select to_regproc('leasehold.advisory_kept_for_ms') is not null as made`, schema)
  const [row] = await connections.query(sql, [], withinMs)
  if (row?.['made'] === true) return
  const ddl = postgresAdvisorySchema({ schema })
  await connections.script(`select pg_advisory_xact_lock(${makingLock});\n${ddl}`, withinMs)
}
