/**
 * The statements. Values are literals that mean the same under every sql_mode and character set; identifiers are in backticks, which
 * every sql_mode knows. No statement depends on the session's time zone.
 */
import type { KeyDocument } from '../document/key-document.ts'
import { idleText } from './stored-document.ts'

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
  readonly lastFence: number
  readonly document: string
  readonly claims: number
  readonly forgetHour: number
}

/** A row that is thought to be as this driver left it. */
export interface MysqlGuess {
  readonly name: string
  /** Its newest revision, if the guess is right. */
  readonly expected: string
}

/** When claims are released by a statement alone. */
export interface MysqlReleaseTerms {
  readonly revision: string
  /** The server's time at which the first of their leases is over, in milliseconds. */
  readonly until: number
  readonly clockForTests: number | undefined
}

/** A claim to be granted on an idle row. */
export interface MysqlGrant extends MysqlGuess {
  readonly document: string
}

/** The server's clock at a reading, in microseconds, and when that was asked for, on the clock of this process. */
export interface ReadClock {
  readonly clock: number
  readonly askedAt: number
}

/** By which clock claims are granted, and what their rows have in common. */
export interface MysqlGrantTerms {
  readonly revision: string
  /** The server's time of an earlier reading, in microseconds. */
  readonly since: number
  /** So many microseconds later it is too late: nobody waits for the answer. */
  readonly within: number
  /** For how long the rows matter. */
  readonly keptMs: number
  /** Microseconds instead of the server's clock: for tests. */
  readonly clockForTests: number | undefined
}

/** What a statement that grants tells by the one number it can: the clock, less `since`, and by how much the session's clocks differ. */
export function grantedAt(told: number, since: number): { readonly clock: number; readonly lagMs: number } {
  return { clock: since + Math.floor(told / lagSteps), lagMs: told % lagSteps }
}

const lagSteps = 1024
/** A session whose clocks differ by more is left alone. One that differs by less than this is judged by how long its answer took. */
const grantLagMaxMs = 1000
/** So much later a clock may be than `since`, in microseconds, for the number to be exact: 23 days. */
const sinceMax = 2e12

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

/** A text of documents, with spaces behind it, which mean nothing in JSON. `bytes`: of the longest. */
function padded(text: string, bytes: number): string {
  const { least, step, most } = paddedTo
  if (bytes > most) return text
  return `rpad(${text}, ${Math.max(least, Math.ceil(bytes / step) * step)}, x'20')`
}

/** A binary string. Text of plain ASCII stands as it is: as digits it has twice the length, and the time to send and to read it. */
function literal(text: string): string {
  return /^[ !#-&(-[\]-~"]+$/.test(text) ? `_binary'${text}'` : `x'${Buffer.from(text).toString('hex')}'`
}

function literals(texts: readonly string[]): string {
  return texts.map(literal).join(', ')
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
  \`last_fence\` bigint unsigned not null,
  \`document\` longblob not null,
  \`claims\` int unsigned not null,
  \`forget_hour\` int unsigned not null,
  key \`forget_hour\` (\`forget_hour\`)
) engine = InnoDB row_format = dynamic`
}

/** What tells servers apart, and may lose an answered write. Only those variables that the server has come back. */
export const serverVariables = `show global variables where variable_name in ('version', 'read_only', 'innodb_read_only', 'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'max_allowed_packet', 'binlog_format', 'wsrep_on', 'server_uuid', 'server_id', 'hostname', 'port', 'group_replication_group_name')`

/** The database of the session, as the hexadecimal digits of its name: no character set changes those. */
export const sessionDatabase = 'select hex(convert(database() using utf8mb4))'

/** Answered like a write, with the flags of the session. */
export const sessionFlags = 'do 0'

/** What a server is like: it decides how statements are written. */
export interface MysqlDialect {
  readonly isMariadb: boolean
  readonly isGalera: boolean
  /** Whether it has a format of its binary log, which a session may change. */
  readonly hasLogFormat: boolean
}

export class MysqlStatements {
  readonly #table: string
  readonly #tableName: string
  readonly #database: string
  readonly #dialect: MysqlDialect
  readonly #session: string
  /** Whether a session is as the rows of a guess need it, but for its clock: what `session` tells of a reading. */
  readonly #isFit: string

  /** The table is named with its database: `use` changes that of a session. */
  constructor(database: string, table: string, dialect: MysqlDialect) {
    this.#table = `${tableIdentifier(database)}.${tableIdentifier(table)}`
    this.#tableName = table
    this.#database = database
    this.#dialect = dialect
    const [isolation, inTransaction] = dialect.isMariadb
      ? ['@@tx_isolation', '@@in_transaction']
      : ['@@transaction_isolation', '0']
    const values = ['@@autocommit', inTransaction, '@@global.read_only', '@@global.innodb_read_only', isolation, lag]
    this.#session = `concat_ws(' ', ${values.join(', ')})`
    // MariaDB 12 has names for the values of read_only, and a name is equal to 0.
    const off = [inTransaction, '@@global.read_only', '@@global.innodb_read_only'].map(
      (name) => `concat(${name}) in (${literals(['0', 'OFF'])})`,
    )
    const fit = ['@@autocommit = 1', ...off, `${isolation} <> ${literal('READ-UNCOMMITTED')}`]
    // A replica that runs the statement itself would judge its own session.
    if (dialect.hasLogFormat) fit.push(`@@binlog_format <> ${literal('STATEMENT')}`)
    this.#isFit = fit.join(' and ')
  }

  /** Makes the table. */
  create(): string {
    return createTable(this.#tableName, this.#database)
  }

  /**
   * Name, newest revision, last fence and document of the first row and of the rows of these names; with the first the clock and the session.
   * Null instead of a document: its revision is among those that are known.
   */
  read(names: readonly string[], known: readonly string[] = []): string {
    const text = 'rtrim(`document`)'
    const document = known.length === 0 ? text : `if(${newestRevision} in (${literals(known)}), null, ${text})`
    const once = (value: string): string => `if(\`name\` = ${literal(birthName)}, ${value}, null)`
    // A node of a Galera cluster may not have applied yet what another has answered.
    const when = this.#dialect.isGalera ? 'set statement wsrep_sync_wait = 1 for ' : ''
    return `${when}select \`name\`, ${newestRevision}, \`last_fence\`, ${document}, ${once(clock)}, ${once(this.#session)} from ${this.#table} where \`name\` in (${literals([birthName, ...names])}) limit ${names.length + 1}`
  }

  /** Writes the first row, unless there is one. */
  begin(document: string): string {
    const values = [literal(birthName), literal(noRevision), '0', literal(document), '0', String(neverHour)].join(', ')
    return `insert into ${this.#table} (${columns}) values (${values}) on duplicate key update \`document\` = values(\`document\`)`
  }

  /**
   * Writes each row whose newest revision is the expected one, or that does not exist: one statement, and so one transaction. A row
   * begins with its revision and the one that it replaces; assignments are carried out in order, so the revisions come last.
   */
  write(rows: readonly MysqlRow[]): string {
    const isOurs = `${newestRevision} = substring(values(\`revisions\`), ${revisionLength + 1})`
    const set = (column: string, value: string): string => `\`${column}\` = if(${isOurs}, ${value}, \`${column}\`)`
    const kept = keptAfter(`left(values(\`revisions\`), ${revisionLength})`)
    const changes = ['last_fence', 'document', 'claims', 'forget_hour'].map((column) =>
      set(column, `values(\`${column}\`)`),
    )
    const values = rows.map(
      ({ name, revision, expected, lastFence, document, claims, forgetHour: hour }) =>
        `(${literal(name)}, ${literal(revision + expected)}, ${lastFence}, ${padded(literal(document), Buffer.byteLength(document))}, ${claims}, ${hour})`,
    )
    const answers = this.#dialect.isMariadb ? ' returning `name`, `revisions`' : ''
    return `insert into ${this.#table} (${columns}) values ${values.join(', ')} on duplicate key update ${changes.join(', ')}, ${set('revisions', kept)}${answers}`
  }

  /** Grants claims on idle rows, where the guess is right, each by the server's clock. Told by `last_insert_id`: see {@link grantedAt}. */
  grant(grants: readonly MysqlGrant[], { revision, since, within, keptMs, clockForTests }: MysqlGrantTerms): string {
    const at = String(clockForTests ?? clock)
    const bytes = grants.reduce((most, { document }) => Math.max(most, Buffer.byteLength(document)), 0)
    const documents = grants.map(({ name, document }) => `when ${literal(name)} then ${literal(document)}`)
    const hour = `least(${neverHour}, ${at} div ${hourMs * 1000} + ${Math.ceil(keptMs / hourMs) + 1 + keptHours})`
    // The server may have stood still since it compared the clocks.
    const told = `last_insert_id((${at} - ${since}) * ${lagSteps} + least(${lag} div 1000, ${lagSteps - 1}))`
    const changes = [
      `\`last_fence\` = ${at}`,
      `\`document\` = ${padded(`case \`name\` ${documents.join(' ')} end`, bytes)}`,
      `\`claims\` = 1 + 0 * ${told}`,
      `\`forget_hour\` = ${hour}`,
    ]
    const last = clockForTests === undefined ? Math.min(within, sinceMax) : sinceMax
    const isNow = `${at} - ${since} between 0 and ${last} - ${lag} and ${lag} < ${grantLagMaxMs * 1000} and \`last_fence\` < ${at}`
    return `${this.#guessed(grants, changes, revision)} and ${isNow}`
  }

  /** Empties rows that have only the claim that is released, where the guess is right and no lease is over once the row is at hand. */
  release(guesses: readonly MysqlGuess[], { revision, until, clockForTests }: MysqlReleaseTerms): string {
    const changes = [`\`document\` = ${padded(literal(idleText), 0)}`, '`claims` = 0']
    return `${this.#guessed(guesses, changes, revision)} and ${clockForTests ?? clock} + ${lag} < ${until * 1000}`
  }

  /** Changes the rows whose newest revision is the expected one. By the primary key, whatever else looks cheap: others' rows are not locked. */
  #guessed(guesses: readonly MysqlGuess[], changes: readonly string[], revision: string): string {
    const byRevision = new Map<string, string[]>()
    for (const { name, expected } of guesses) {
      const names = byRevision.get(expected)
      if (names === undefined) byRevision.set(expected, [name])
      else names.push(name)
    }
    const isName = (names: readonly string[]): string => `\`name\` in (${literals(names)})`
    const asExpected = [...byRevision].map(([expected, names]) =>
      // All names are in the condition already.
      byRevision.size === 1
        ? `${newestRevision} = ${literal(expected)}`
        : `(${newestRevision} = ${literal(expected)} and ${isName(names)})`,
    )
    const set = [...changes, `\`revisions\` = ${keptAfter(literal(revision))}`].join(', ')
    return `update ${this.#table} force index (primary) set ${set} where ${isName(guesses.map(({ name }) => name))} and (${asExpected.join(' or ')}) and ${this.#isFit}`
  }

  /** Name and revisions of these rows. */
  revisions(names: readonly string[]): string {
    return `select \`name\`, \`revisions\` from ${this.#table} where \`name\` in (${literals(names)}) limit ${names.length}`
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
    return `delete from ${this.#table} where \`name\` in (${literals(names)}) and \`forget_hour\` < ${hour}`
  }

  /** The engine of the table, and when it was made here, in seconds since 1970. */
  table(): string {
    return `select engine, coalesce(unix_timestamp(create_time), 0) from information_schema.tables where table_schema = convert(${literal(this.#database)} using utf8mb4) and table_name = convert(${literal(this.#tableName)} using utf8mb4) limit 1`
  }
}

/** For how many seconds the server runs, and which Galera cluster it is of. */
export const serverStatus = `show global status where variable_name in ('Uptime', 'wsrep_cluster_state_uuid')`

/** The least bytes after those of all texts that begin with the prefix. UTF-8 has no byte 255. */
export function pastAllBytes(prefix: string): Buffer {
  return Buffer.concat([Buffer.from(prefix), Buffer.from([255])])
}

/** The revisions of a row that got a new one. */
function keptAfter(revision: string): string {
  return `concat(${revision}, left(\`revisions\`, ${revisionLength * (revisionsKept - 1)}))`
}

const columns = '`name`, `revisions`, `last_fence`, `document`, `claims`, `forget_hour`'
const newestRevision = `left(\`revisions\`, ${revisionLength})`
/** The clock of a session can be fixed by `set timestamp`: it then differs from that of sysdate. In microseconds. */
const lag = 'abs(timestampdiff(microsecond, now(6), sysdate(6)))'
const clock = `timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))`
