import { LeaseholdError } from '../core/errors.ts'
import { checkOptions, type OptionNames } from '../core/contract/option-names.ts'
import { affectedRows, type WriteResult } from './affected-rows.ts'
import { foundRows, type FindResult } from './found-rows.ts'
import { checkFence, missing, superseded } from './superseded.ts'

/** The SQL dialect: how to quote names and write placeholders. */
export type SqlDialect = 'postgres' | 'sqlite' | 'mysql'

/** The options of `sqlGuard`. */
export interface SqlGuardOptions {
  /**
   * The column that keeps the fence, a 64-bit integer (`bigint`). NULL means: not written under a fence yet.
   *
   * @default 'fence'
   */
  readonly column?: string | undefined
}

const sqlNames: OptionNames<SqlGuardOptions> = { column: true }

/** A piece of SQL, and the values of its placeholders in order. */
export interface SqlPiece {
  readonly sql: string
  readonly values: unknown[]
}

/** A row, and the fence of the holder that is about to read or write it. */
export interface SqlRow {
  readonly table: string | readonly string[]
  /** The values that identify the row, by column. */
  readonly where: Readonly<Record<string, unknown>>
  readonly fence: number
}

/** A guarded update of one row. */
export interface SqlUpdate extends SqlRow {
  /** The new values, by column. */
  readonly set: Readonly<Record<string, unknown>>
}

/**
 * Keeps stale holders out of rows. The fence is a column of the row itself, so that one UPDATE checks it, raises it and
 * writes, atomically.
 */
export interface SqlGuard {
  /**
   * An UPDATE that only raises the fence of one row. Run it before a read whose result is to be written back, and pass its
   * result to {@link check}: no earlier holder can write the row any more.
   */
  raise(row: SqlRow): SqlPiece
  /** A whole UPDATE of one row. Pass its result to {@link check}. */
  update(update: SqlUpdate): SqlPiece
  /** For an UPDATE of your own: `fence = $2`, where 2 is the `position` of its value among all values. */
  set(fence: number, position: number): SqlPiece
  /** For an UPDATE or DELETE of your own: the condition under which this fence may write the row. */
  where(fence: number, position: number): SqlPiece
  /**
   * Throws LOST (`superseded`) if the statement wrote no row: a later holder has written, or there is no such row. `result`
   * is the result of your client, or the number of rows. {@link checkRow} tells the two apart.
   */
  check(result: WriteResult, resource: string, fence: number): void
  /** A SELECT of one row: whether there is such a row, whatever its fence. */
  find(row: SqlRow): SqlPiece
  /**
   * Checks the result of an UPDATE of this row. If the UPDATE wrote nothing, runs {@link find} and rejects with LOST (`superseded`) if
   * there is such a row: a later holder has written it; and with INVALID (`missing`) if there is none. `run` runs a SELECT and gives what
   * your client returns: its result, its rows, or the first of them.
   *
   * @example
   * ```ts
   * import { isMissing, sqlGuard } from 'leasehold/guards'
   * import { Pool } from 'pg'
   *
   * const guard = sqlGuard('postgres')
   * const pool = new Pool()
   * const row = { table: 'orders', where: { id: 42 }, fence: 118 }
   * const { sql, values } = guard.update({ ...row, set: { state: 'paid' } })
   * await guard.checkRow(await pool.query(sql, values), row, (find, of) => pool.query(find, of))
   * ```
   */
  checkRow(
    result: WriteResult,
    row: SqlRow,
    run: (sql: string, values: unknown[]) => FindResult | PromiseLike<FindResult>,
  ): Promise<void>
  /** Quotes a name for this dialect, whatever characters it has. */
  quote(name: string): string
}

class SqlStatements implements SqlGuard {
  readonly #dialect: SqlDialect
  readonly #column: string

  constructor(dialect: SqlDialect, options: SqlGuardOptions = {}) {
    checkOptions(options, sqlNames, 'sqlGuard')
    if (!Object.hasOwn(quotes, dialect)) {
      throw new LeaseholdError('INVALID', `There is no SQL dialect ${JSON.stringify(dialect)}. Use ${dialects}.`)
    }
    this.#dialect = dialect
    this.#column = this.quote(options.column ?? 'fence')
  }

  raise(row: SqlRow): SqlPiece {
    return this.update({ ...row, set: {} })
  }

  update({ table, set, where, fence }: SqlUpdate): SqlPiece {
    const values: unknown[] = []
    const assignments = Object.entries(set).map(([name, value]) => this.#equation(name, value, values))
    assignments.push(this.#piece(this.set(fence, values.length + 1), values))
    const conditions = this.#conditions(where, values)
    conditions.push(this.#piece(this.where(fence, values.length + 1), values))
    const changes = assignments.join(', ')
    return { sql: `update ${this.#tableName(table)} set ${changes} where ${conditions.join(' and ')}`, values }
  }

  find({ table, where }: SqlRow): SqlPiece {
    const values: unknown[] = []
    const conditions = this.#conditions(where, values).join(' and ')
    return { sql: `select 1 as found from ${this.#tableName(table)} where ${conditions}`, values }
  }

  async checkRow(
    result: WriteResult,
    row: SqlRow,
    run: (sql: string, values: unknown[]) => FindResult | PromiseLike<FindResult>,
  ): Promise<void> {
    if (affectedRows(result) > 0) return
    const { sql, values } = this.find(row)
    const isThere = foundRows(await run(sql, values)) > 0
    const { table, where, fence } = row
    const columns = Object.entries(where).map(([name, value]) => `${name}=${String(value)}`)
    const resource = `${typeof table === 'string' ? table : table.join('.')} ${columns.join(' ')}`
    throw isThere ? superseded(resource, fence, 'a later holder has written') : missing(resource, fence)
  }

  set(fence: number, position: number): SqlPiece {
    return { sql: `${this.#column} = ${this.#placeholder(position)}`, values: [checkFence(fence)] }
  }

  where(fence: number, position: number): SqlPiece {
    const condition = `(${this.#column} is null or ${this.#column} <= ${this.#placeholder(position)})`
    return { sql: condition, values: [checkFence(fence)] }
  }

  check(result: WriteResult, resource: string, fence: number): void {
    if (affectedRows(result) === 0) throw superseded(resource, fence)
  }

  quote(name: string): string {
    if (typeof name !== 'string' || name === '' || name.includes('\0')) {
      throw new LeaseholdError('INVALID', `${JSON.stringify(name)} is not a name of a table or column.`)
    }
    const mark = quotes[this.#dialect]
    return `${mark}${name.replaceAll(mark, mark + mark)}${mark}`
  }

  #tableName(table: string | readonly string[]): string {
    return (typeof table === 'string' ? [table] : table).map((part) => this.quote(part)).join('.')
  }

  /** The conditions that identify a row; their values are added. */
  #conditions(where: SqlRow['where'], values: unknown[]): string[] {
    const columns = Object.entries(where)
    if (columns.length === 0) throw new LeaseholdError('INVALID', 'A guard must identify its row. Pass `where`.')
    return columns.map(([name, value]) =>
      value === null ? `${this.quote(name)} is null` : this.#equation(name, value, values),
    )
  }

  #equation(name: string, value: unknown, values: unknown[]): string {
    return `${this.quote(name)} = ${this.#placeholder(values.push(value))}`
  }

  #placeholder(position: number): string {
    if (this.#dialect !== 'postgres') return '?'
    if (Number.isSafeInteger(position) && position > 0) return `$${position}`
    throw new LeaseholdError('INVALID', `${String(position)} is not a position of a value. Positions count from 1.`)
  }

  #piece(piece: SqlPiece, values: unknown[]): string {
    values.push(...piece.values)
    return piece.sql
  }
}

/**
 * A guard for the rows of a database.
 *
 * @example
 * ```ts
 * import { sqlGuard } from 'leasehold/guards'
 * import { Pool } from 'pg'
 *
 * const guard = sqlGuard('postgres')
 * const pool = new Pool()
 * await locks.run('orders/42', async ({ fence }) => {
 *   const { sql, values } = guard.update({ table: 'orders', set: { state: 'paid' }, where: { id: 42 }, fence })
 *   guard.check(await pool.query(sql, values), 'orders/42', fence)
 * })
 * ```
 */
export function sqlGuard(dialect: SqlDialect, options?: SqlGuardOptions): SqlGuard {
  return new SqlStatements(dialect, options)
}

const quotes: Readonly<Record<SqlDialect, string>> = { postgres: '"', sqlite: '"', mysql: '`' }
const dialects = Object.keys(quotes).join(', ')
