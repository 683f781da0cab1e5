import { LeaseholdError } from '../core/errors.ts'
import { checkOptions, type OptionNames } from '../core/contract/option-names.ts'
import { affectedRows, type WriteResult } from './affected-rows.ts'
import { checkFence, superseded } from './superseded.ts'

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
   * is the result of your client, or the number of rows.
   */
  check(result: WriteResult, resource: string, fence: number): void
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
    const rows = Object.entries(where)
    if (rows.length === 0) throw new LeaseholdError('INVALID', 'A guarded UPDATE must identify its row. Pass `where`.')
    const values: unknown[] = []
    const assign = ([name, value]: [string, unknown]): string =>
      `${this.quote(name)} = ${this.#placeholder(values.push(value))}`
    const assignments = Object.entries(set).map(assign)
    assignments.push(this.#piece(this.set(fence, values.length + 1), values))
    const conditions = rows.map((row) => (row[1] === null ? `${this.quote(row[0])} is null` : assign(row)))
    conditions.push(this.#piece(this.where(fence, values.length + 1), values))
    const name = (typeof table === 'string' ? [table] : table).map((part) => this.quote(part)).join('.')
    return { sql: `update ${name} set ${assignments.join(', ')} where ${conditions.join(' and ')}`, values }
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
