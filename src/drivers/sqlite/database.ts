/**
 * SQLite as this driver uses it: synchronous, a few calls. `node:sqlite` where the runtime has it, else a package that is
 * the same for older ones, prebuilt.
 */
import nodeModule from 'node:module'
import { LeaseholdError } from '../../core/errors.ts'
import { ownLocation } from '../../core/machine/module-loading.ts'
import { installCommand, runtime, type Runtime } from '../../core/machine/runtime.ts'
import { collectStatements } from './unfinished-statements.ts'

/** A value of a column or parameter. @internal */
export type SqliteValue = string | number | null
/** A row, by the names of its columns. @internal */
export type SqliteRow = Readonly<Record<string, SqliteValue>>

/** A prepared statement that answers with rows. @internal */
export interface SqlQuery {
  get(...values: SqliteValue[]): SqliteRow | undefined
  all(...values: SqliteValue[]): SqliteRow[]
}

/** A prepared statement that only does something. @internal */
export interface SqlCommand {
  run(...values: SqliteValue[]): void
}

/** An open file. @internal */
export interface Database {
  /** Parameters are `?`, or `?1`, `?2` … where a value is used twice; values are given by position. */
  query(sql: string): SqlQuery
  command(sql: string): SqlCommand
  /** Runs several statements without values. */
  exec(sql: string): void
  close(): void
}

/** Two packages with the same interface, in the order in which they are tried. */
export type SqliteBinding = 'node:sqlite' | '@photostructure/sqlite'

/** Opens a file with the first binding at hand, or with the one named. @internal */
export function openDatabase(file: string, binding?: SqliteBinding): Database {
  return databaseOpener(binding)(file)
}

/** As {@link openDatabase}, in two steps: throws if there is no binding before any file is touched. @internal */
export function databaseOpener(binding?: SqliteBinding): (file: string) => Database {
  const builtin = binding === '@photostructure/sqlite' ? undefined : loadBuiltin()
  if (builtin === undefined && binding === 'node:sqlite') throw noBinding('')
  const { DatabaseSync } = builtin ?? loadPackage()
  return (file) => {
    const database = new DatabaseSync(file, { timeout: 0 })
    const query = (sql: string): SqlQuery => {
      const plain = withoutNumbers(sql)
      const statement = database.prepare(plain.sql)
      const { order } = plain
      if (order === undefined) return statement
      return {
        get: (...values) => statement.get(...inOrder(values, order)),
        all: (...values) => statement.all(...inOrder(values, order)),
      }
    }
    return {
      query,
      command(sql) {
        const statement = query(sql)
        // Not `run`, which counts the changed rows: that takes longer than some of the changes.
        return { run: (...values) => void statement.get(...values) }
      },
      exec: (sql) => database.exec(sql),
      close() {
        database.close()
        if (builtin === undefined) collectStatements()
      },
    }
  }
}

interface SqliteModule {
  DatabaseSync: new (
    file: string,
    options: { timeout: number },
  ) => { prepare(sql: string): SqlQuery; exec(sql: string): void; close(): void }
}

/** Undefined before Node 22.13 and Bun 1.4. */
function loadBuiltin(): SqliteModule | undefined {
  const { getBuiltinModule } = process as { getBuiltinModule?: (name: string) => unknown }
  if (getBuiltinModule === undefined) return undefined
  const emitWarning = process.emitWarning.bind(process) as (warning: string | Error, ...rest: unknown[]) => void
  const original = Object.getOwnPropertyDescriptor(process, 'emitWarning') as PropertyDescriptor
  // Loading the module warns that it is experimental, to users who did not choose it. The load is synchronous.
  process.emitWarning = (warning: string | Error, ...rest: unknown[]) => {
    if (!String(warning).includes('SQLite is an experimental feature')) emitWarning(warning, ...rest)
  }
  try {
    return getBuiltinModule('node:sqlite') as SqliteModule | undefined
  } finally {
    Object.defineProperty(process, 'emitWarning', original)
  }
}

function loadPackage(): SqliteModule {
  try {
    // Not `import`ed, which webpack would try to resolve.
    return nodeModule.createRequire(ownLocation())('@photostructure/sqlite') as SqliteModule
  } catch (error) {
    throw noBinding(', and @photostructure/sqlite could not be loaded', error)
  }
}

/** The first version of each runtime that has a `node:sqlite` that serves. */
const haveSqlite: Readonly<Record<Runtime, string>> = {
  Node: 'Node 22.13',
  Bun: 'Bun 1.4',
  Deno: 'Deno 2.8',
  Web: 'Node 22.13',
}

function noBinding(more: string, cause?: unknown): LeaseholdError {
  const command = installCommand(['@photostructure/sqlite@1'])
  const what = `This version of ${runtime} has no node:sqlite${more}`
  const message = `${what}. Run: ${command} (or use ${haveSqlite[runtime]} or newer)`
  return new LeaseholdError('UNAVAILABLE', message, { reason: 'configuration', cause })
}

/** Ends the transaction, if SQLite has not rolled it back by itself. @internal */
export function rollBack(database: Database): void {
  try {
    database.exec('rollback')
  } catch {
    // Then there is nothing to roll back.
  }
}

/**
 * Numbered parameters (`?1`), which a statement needs to use one value twice. Node before 22.20, and 24 before 24.7, cannot
 * bind values to them by position, so no binding is given a number: each `?N` becomes a `?` of its own.
 */
const numbered = /\?(\d+)/g

/** A statement without numbers. */
export interface PlainStatement {
  readonly sql: string
  /** For each `?`, which of the caller's values it stands for. Undefined: the first for the first, and so on. */
  readonly order: readonly number[] | undefined
}

/** Spells a statement without numbered parameters. No text or comment in it may look like one. */
export function withoutNumbers(sql: string): PlainStatement {
  const order = Array.from(sql.matchAll(numbered), ([, number]) => Number(number) - 1)
  const isInOrder = order.every((value, index) => value === index)
  return { sql: sql.replace(numbered, '?'), order: isInOrder ? undefined : order }
}

/** The values in the order of the statement's parameters. */
export function inOrder<Item>(items: readonly Item[], order: readonly number[]): Item[] {
  return order.map((index) => items[index] as Item)
}
