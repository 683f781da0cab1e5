import { LeaseholdError } from '../../core/errors.ts'
import type { Connections } from './connections.ts'
import { alreadyMade, isAlreadyMade, isSchemaMissing } from './faults.ts'
import { retrying } from './retries.ts'
import advisorySql from '../postgres-advisory/tables.sql.generated.ts'
import admissionSql from './functions/admission.sql.generated.ts'
import claimRecordSql from './functions/claim-record.sql.generated.ts'
import conflictSql from './functions/conflict.sql.generated.ts'
import contendedSql from './functions/contended.sql.generated.ts'
import copySql from './functions/copy.sql.generated.ts'
import draftSql from './functions/draft.sql.generated.ts'
import listingSql from './functions/listing.sql.generated.ts'
import localWalkSql from './functions/local-walk.sql.generated.ts'
import promotionSql from './functions/promotion.sql.generated.ts'
import sendSql from './functions/send.sql.generated.ts'
import typesSql from './functions/types.sql.generated.ts'
import tablesSql from './tables.sql.generated.ts'

/** Options of the schema. */
export interface SchemaOptions {
  /**
   * The schema of the tables and functions: a set of locks of its own.
   *
   * @default 'leasehold'
   */
  readonly schema?: string | undefined
  /**
   * True: the tables are not written to the log. Quicker, and emptied by a crash of the server.
   *
   * @default false
   */
  readonly unlogged?: boolean | undefined
}

/** The format of the tables and the revision of the functions that this version makes. */
const tablesFormat = 2
const functionsRevision = 12
/** The revision of what advisory locks need. */
const advisoryRevision = 3

/** The functions, which run the rule beside the data. In this order: some need others when they are created. */
const functionsSql = [
  copySql,
  typesSql,
  conflictSql,
  claimRecordSql,
  draftSql,
  promotionSql,
  localWalkSql,
  admissionSql,
  contendedSql,
  sendSql,
  listingSql,
].join('\n')

/** The advisory lock of processes that make a schema, so that they take turns. Any number. */
const makingLock = 7_240_618_953_041

/** The SQL that makes the schema, for people who run their own migrations. Safe to run again. */
export function postgresSchema(options: SchemaOptions = {}): string {
  const { schema = 'leasehold', unlogged = false } = options
  const versions = `insert into leasehold.format (tables, functions) values (${tablesFormat}, ${functionsRevision})
  on conflict (one) do update set functions = greatest(format.functions, excluded.functions);
${bornSql('leasehold.kept_for_ms()')}`
  const sql = `${tablesSql.replaceAll('@table@', unlogged ? 'unlogged table' : 'table')}\n${functionsSql}\n${versions}`
  return inSchema(sql, schema)
}

/**
 * Stores the time of creation with the data. Where a service does not show which copy of the data this is, that fails here in
 * silence; only `dataAgeMs` reports it.
 */
function bornSql(keptForMs: string): string {
  return `do $$ begin perform ${keptForMs}; exception when others then null; end $$;\n`
}

/** SQL written for the schema `leasehold`, rewritten for this one. @internal */
export function inSchema(sql: string, schema: string): string {
  if (schema === 'leasehold') return sql
  if (!/^[a-z_][a-z0-9_]{0,47}$/.test(schema)) {
    throw new LeaseholdError(
      'INVALID',
      `The schema ${JSON.stringify(schema)} is not usable. Use up to 48 lower-case letters, digits or '_'.`,
    )
  }
  // Quoted, as it may be a word of SQL. Names of settings stay.
  return sql.replaceAll(/\bleasehold(?=[.;])(?!\.(?:session|mute)\b)/g, `"${schema}"`)
}

/** Makes what the schema lacks, and brings functions of an earlier revision up to date. Any number of processes may do so at once. @internal */
export async function makeSchema(connections: Connections, options: SchemaOptions, withinMs: number): Promise<void> {
  const { schema = 'leasehold' } = options
  await refuseImitations(connections, withinMs)
  const found = await versionsOf(connections, schema, withinMs)
  if (found !== undefined && found.tables !== tablesFormat) {
    const what = `The schema ${schema} has format ${found.tables}; this version reads ${tablesFormat}.`
    const advice =
      found.tables > tablesFormat
        ? 'Update Leasehold here.'
        : 'A version before the first release made it: stop those who use it, and drop it.'
    throw new LeaseholdError('UNAVAILABLE', `${what} ${advice}`, { reason: 'foreign' })
  }
  if (found !== undefined && found.functions >= functionsRevision) return
  const isMade = `to_regclass('leasehold.format') is not null`
  const revision = 'select f.functions from leasehold.format f'
  const guard = inSchema(guardSql(isMade, revision, functionsRevision), schema)
  await runOnce(connections, `${guard}\n${postgresSchema(options)}`, withinMs)
}

/**
 * Waits for another process that makes the schema, then ends if it has made it: an older version that comes late must not replace
 * newer functions by its own.
 */
function guardSql(isMade: string, revision: string, least: number): string {
  return `select set_config('client_min_messages', 'warning', true);
select pg_advisory_xact_lock(${makingLock});
do $guard$
begin
  if ${isMade} then
    if (${revision}) >= ${least} then raise exception using errcode = '${alreadyMade}', message = 'made by another'; end if;
  end if;
end
$guard$;`
}

/** Runs a script in one transaction, as its statements are one message. */
async function runOnce(connections: Connections, script: string, withinMs: number): Promise<void> {
  try {
    await retrying(withinMs, (leftMs) => connections.script(script, leftMs))
  } catch (error) {
    if (!isAlreadyMade(error)) throw error
  }
}

/** Refuses databases that speak PostgreSQL's protocol and lack what the locks need. */
async function refuseImitations(connections: Connections, withinMs: number): Promise<void> {
  const version = await connections.ask('select version()', [], withinMs)
  if (!version.startsWith('CockroachDB')) return
  const what = `This is ${version.split(' ').slice(0, 3).join(' ')}, which has no NOTIFY and whose advisory locks lock nothing.`
  throw new LeaseholdError('UNSUPPORTED', `${what} Use a PostgreSQL server, or another store.`)
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
  const revision = `create or replace function leasehold.advisory_revision() returns integer language sql immutable as
  'select ${advisoryRevision}';
${bornSql('leasehold.advisory_kept_for_ms()')}`
  return inSchema(`${advisorySql}\n${copySql}\n${revision}`, options.schema ?? 'leasehold')
}

/** Makes what advisory locks need. Any number of processes may do so at once. @internal */
export async function makeAdvisorySchema(connections: Connections, schema: string, withinMs: number): Promise<void> {
  await refuseImitations(connections, withinMs)
  const revision = inSchema('select leasehold.advisory_revision()', schema)
  try {
    const [row] = await connections.query(`${revision} as revision`, [], withinMs)
    if (Number(row?.['revision']) >= advisoryRevision) return
  } catch (error) {
    if (!isSchemaMissing(error)) throw error
  }
  const isMade = inSchema(`to_regproc('leasehold.advisory_revision') is not null`, schema)
  const guard = guardSql(isMade, revision, advisoryRevision)
  await runOnce(connections, `${guard}\n${postgresAdvisorySchema({ schema })}`, withinMs)
}
