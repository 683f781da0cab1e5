/**
 * The statements. Values are hexadecimal literals, which mean the same under every sql_mode and character set; identifiers are in
 * backticks, which every sql_mode knows. No statement depends on the session's time zone.
 */
import type { KeyDocument } from '../document/key-document.ts'

/** The first row of the table: it says since when the data has been kept, and is in every read. No lock has such a name. */
export const birthName = '\0'

/** A revision is so many characters; a row keeps the last few, the newest first. */
const revisionLength = 24
const revisionsKept = 8
export const noRevision = '0'.repeat(revisionLength)

/** The last fence, and what else a row says, is kept for so long after it matters. Whole hours: most writes leave the index alone. */
const keptHours = 2
const hourMs = 3_600_000
const neverHour = 4_294_967_295

/** A row to write if its newest revision is the expected one. */
export interface MysqlRow {
  readonly name: string
  readonly expected: string
  readonly revision: string
  readonly document: string
  readonly claims: number
  readonly forgetHour: number
}

/** The hour from which on nothing in the document matters any more. */
export function forgetHour({ claims, ended, lastFence }: KeyDocument): number {
  const ends = claims.map(({ expiresAt, claim, ttlMs }) => expiresAt + claim.graceMs + ttlMs)
  const last = ends.reduce((latest, end) => Math.max(latest, end), Math.max(lastFence / 1000, ended?.until ?? 0))
  return Math.min(neverHour, Math.ceil(last / hourMs) + keptHours)
}

export function hourOf(ms: number): number {
  return Math.floor(ms / hourMs)
}

/** Documents take whole steps of space, so that most writes replace a row by one of its size: others move its page about. */
const paddedTo = { least: 768, step: 256, most: 8192 }

/** A document, with spaces behind it, which mean nothing in JSON. */
function paddedLiteral(document: string): string {
  const bytes = Buffer.byteLength(document)
  const { least, step, most } = paddedTo
  if (bytes > most) return literal(document)
  return `rpad(${literal(document)}, ${Math.max(least, Math.ceil(bytes / step) * step)}, x'20')`
}

function literal(text: string): string {
  return `x'${Buffer.from(text).toString('hex')}'`
}

/** A name of a table or database as an identifier. */
export function tableIdentifier(name: string): string {
  return `\`${name.replaceAll('`', '``')}\``
}

/** Makes the table; without a database, in that of the session. */
export function createTable(table: string, database?: string): string {
  const place = database === undefined ? '' : `${tableIdentifier(database)}.`
  return `create table if not exists ${place}${tableIdentifier(table)} (
  \`name\` varbinary(1024) not null primary key,
  \`revisions\` varbinary(${revisionLength * revisionsKept}) not null,
  \`document\` longblob not null,
  \`claims\` int unsigned not null,
  \`forget_hour\` int unsigned not null,
  key \`forget_hour\` (\`forget_hour\`)
) engine = InnoDB row_format = dynamic`
}

/** What tells servers apart, and may lose an answered write. Only those variables that the server has come back. */
export const serverVariables = `show global variables where variable_name in ('version', 'read_only', 'innodb_read_only', 'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'max_allowed_packet', 'wsrep_on', 'server_uuid', 'server_id', 'hostname', 'port', 'group_replication_group_name')`

/** The database of the session, as the hexadecimal digits of its name: no character set changes those. */
export const sessionDatabase = 'select hex(convert(database() using utf8mb4))'

/** Answered like a write, with the flags of the session. */
export const sessionFlags = 'do 0'

/** What a server is like: it decides how statements are written. */
export interface MysqlDialect {
  readonly isMariadb: boolean
  readonly isGalera: boolean
}

export class MysqlStatements {
  readonly #table: string
  readonly #tableName: string
  readonly #database: string
  readonly #dialect: MysqlDialect
  readonly #session: string

  /** The table is named with its database: `use` changes that of a session. */
  constructor(database: string, table: string, dialect: MysqlDialect) {
    this.#table = `${tableIdentifier(database)}.${tableIdentifier(table)}`
    this.#tableName = table
    this.#database = database
    this.#dialect = dialect
    const [isolation, inTransaction] = dialect.isMariadb
      ? ['@@tx_isolation', '@@in_transaction']
      : ['@@transaction_isolation', '0']
    // The clock of a session can be fixed by `set timestamp`: it then differs from that of sysdate. In microseconds.
    const lag = 'abs(timestampdiff(microsecond, now(6), sysdate(6)))'
    const values = ['@@autocommit', inTransaction, '@@global.read_only', '@@global.innodb_read_only', isolation, lag]
    this.#session = `concat_ws(' ', ${values.join(', ')})`
  }

  /** Makes the table. */
  create(): string {
    return createTable(this.#tableName, this.#database)
  }

  /** Name, revisions and document of the first row and of the rows of these names; with each the clock and the session. */
  read(names: readonly string[]): string {
    const list = [birthName, ...names].map(literal).join(', ')
    // A node of a Galera cluster may not have applied yet what another has answered.
    const when = this.#dialect.isGalera ? 'set statement wsrep_sync_wait = 1 for ' : ''
    return `${when}select \`name\`, \`revisions\`, \`document\`, ${clock}, ${this.#session} from ${this.#table} where \`name\` in (${list}) limit ${names.length + 1}`
  }

  /** Writes the first row, unless there is one. */
  begin(document: string): string {
    const values = [literal(birthName), literal(noRevision), literal(document), '0', String(neverHour)].join(', ')
    return `insert into ${this.#table} (${columns}) values (${values}) on duplicate key update \`document\` = values(\`document\`)`
  }

  /**
   * Writes each row whose newest revision is the expected one, or that does not exist: one statement, and so one transaction. A row
   * begins with its revision and the one that it replaces; assignments are carried out in order, so the revisions come last.
   */
  write(rows: readonly MysqlRow[]): string {
    const isOurs = `left(\`revisions\`, ${revisionLength}) = substring(values(\`revisions\`), ${revisionLength + 1})`
    const set = (column: string, value: string): string => `\`${column}\` = if(${isOurs}, ${value}, \`${column}\`)`
    const kept = `concat(left(values(\`revisions\`), ${revisionLength}), left(\`revisions\`, ${revisionLength * (revisionsKept - 1)}))`
    const changes = ['document', 'claims', 'forget_hour'].map((column) => set(column, `values(\`${column}\`)`))
    const values = rows.map(
      ({ name, revision, expected, document, claims, forgetHour: hour }) =>
        `(${literal(name)}, ${literal(revision + expected)}, ${paddedLiteral(document)}, ${claims}, ${hour})`,
    )
    const answers = this.#dialect.isMariadb ? ' returning `name`, `revisions`' : ''
    return `insert into ${this.#table} (${columns}) values ${values.join(', ')} on duplicate key update ${changes.join(', ')}, ${set('revisions', kept)}${answers}`
  }

  /** Name and revisions of these rows. */
  revisions(names: readonly string[]): string {
    return `select \`name\`, \`revisions\` from ${this.#table} where \`name\` in (${names.map(literal).join(', ')}) limit ${names.length}`
  }

  /** Names that have claims, in order, and how many claims. */
  names(bounds: {
    readonly after: string
    readonly from?: string
    readonly before?: Buffer | undefined
    readonly limit: number
  }): string {
    const { after, from, before, limit } = bounds
    const conditions = [`\`name\` > ${literal(after)}`, '`claims` > 0']
    if (from !== undefined) conditions.push(`\`name\` >= ${literal(from)}`)
    if (before !== undefined) conditions.push(`\`name\` < x'${before.toString('hex')}'`)
    return `select \`name\`, \`claims\` from ${this.#table} where ${conditions.join(' and ')} order by \`name\` limit ${limit}`
  }

  /** Names of rows in which nothing matters any more. */
  forgettable(hour: number, limit: number): string {
    return `select \`name\` from ${this.#table} where \`forget_hour\` < ${hour} limit ${limit}`
  }

  forget(names: readonly string[], hour: number): string {
    return `delete from ${this.#table} where \`name\` in (${names.map(literal).join(', ')}) and \`forget_hour\` < ${hour}`
  }

  /** The engine of the table, and when it was made here, in seconds since 1970. */
  table(): string {
    return `select engine, coalesce(unix_timestamp(create_time), 0) from information_schema.tables where table_schema = convert(${literal(this.#database)} using utf8mb4) and table_name = convert(${literal(this.#tableName)} using utf8mb4) limit 1`
  }
}

/** For how many seconds the server runs, and which Galera cluster it is of. */
export const serverStatus = `show global status where variable_name in ('Uptime', 'wsrep_cluster_state_uuid')`

const columns = '`name`, `revisions`, `document`, `claims`, `forget_hour`'
const clock = `timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))`
