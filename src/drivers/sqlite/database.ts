/**
 * SQLite as this driver uses it: synchronous, a few calls, two bindings. `node:sqlite` where the runtime has it, else
 * the prebuilt `libsql`.
 */
import { createRequire } from 'node:module'
import { LeaseholdError } from '../../core/errors.ts'

export type Value = string | number | null
export type Row = Readonly<Record<string, Value>>

/** A prepared statement that answers with rows. */
export interface Query {
  get(...values: Value[]): Row | undefined
  all(...values: Value[]): Row[]
}

/** A prepared statement that only does something. */
export interface Command {
  run(...values: Value[]): void
}

export interface Database {
  query(sql: string): Query
  command(sql: string): Command
  /** Runs several statements without values. */
  exec(sql: string): void
  close(): void
}

/** The names of the two bindings, in the order in which they are tried. */
export type Binding = 'node:sqlite' | 'libsql'

/** Opens a file with the first binding at hand, or with the one named. */
export function openDatabase(file: string, binding?: Binding): Database {
  return databaseOpener(binding)(file)
}

/** The same in two steps: throws if there is no binding, before anything is done to a file. */
export function databaseOpener(binding?: Binding): (file: string) => Database {
  const builtin = binding === 'libsql' ? undefined : loadBuiltin()
  if (builtin !== undefined) return (file) => openBuiltin(builtin, file)
  if (binding === 'node:sqlite') throw noBinding('This version of Node has no node:sqlite')
  const libsql = loadLibsql()
  return (file) => openLibsql(libsql, file)
}

// ---- node:sqlite

interface BuiltinModule {
  DatabaseSync: new (
    file: string,
    options: { timeout: number },
  ) => { prepare(sql: string): Query & Command; exec(sql: string): void; close(): void }
}

function loadBuiltin(): BuiltinModule | undefined {
  const { getBuiltinModule } = process as { getBuiltinModule?: (name: string) => unknown }
  if (getBuiltinModule === undefined) return undefined
  const emitWarning = process.emitWarning.bind(process) as (warning: string | Error, ...rest: unknown[]) => void
  const original = Object.getOwnPropertyDescriptor(process, 'emitWarning') as PropertyDescriptor
  // Loading it warns every user of Leasehold that it is experimental; they did not choose it. The load is synchronous.
  process.emitWarning = (warning: string | Error, ...rest: unknown[]) => {
    if (!String(warning).includes('SQLite is an experimental feature')) emitWarning(warning, ...rest)
  }
  try {
    return getBuiltinModule('node:sqlite') as BuiltinModule | undefined
  } finally {
    Object.defineProperty(process, 'emitWarning', original)
  }
}

function openBuiltin({ DatabaseSync }: BuiltinModule, file: string): Database {
  const database = new DatabaseSync(file, { timeout: 0 })
  return {
    query: (sql) => database.prepare(sql),
    command: (sql) => database.prepare(sql),
    exec: (sql) => database.exec(sql),
    close: () => database.close(),
  }
}

// ---- libsql

interface LibsqlStatement {
  /** Rows as arrays from now on. */
  raw(): LibsqlStatement
  columns(): readonly { readonly name: string }[]
  get(values: Value[]): Value[] | undefined
  all(values: Value[]): Value[][]
}

type LibsqlModule = new (
  file: string,
  options: { timeout: number },
) => { prepare(sql: string): LibsqlStatement; exec(sql: string): void; close(): void }

function loadLibsql(): LibsqlModule {
  try {
    return createRequire(import.meta.url)('libsql') as LibsqlModule
  } catch (error) {
    throw noBinding(`This version of Node has no node:sqlite, and libsql could not be loaded`, error)
  }
}

function openLibsql(Libsql: LibsqlModule, file: string): Database {
  const database = new Libsql(file, { timeout: 0 })
  return {
    query(sql) {
      const statement = database.prepare(sql).raw()
      const names = statement.columns().map(({ name }) => name)
      return {
        get(...values) {
          const row = statement.get(values)
          return row === undefined ? undefined : named(row, names)
        },
        all: (...values) => statement.all(values).map((row) => named(row, names)),
      }
    },
    command(sql) {
      const statement = database.prepare(sql)
      // Not `run`, which counts the changes and takes the time of each call.
      return { run: (...values) => void statement.get(values) }
    },
    exec: (sql) => database.exec(sql),
    close: () => database.close(),
  }
}

/** The binding would name the values too, at twice the price of reading them. */
function named(values: readonly Value[], names: readonly string[]): Row {
  const row: Record<string, Value> = {}
  for (let index = 0; index < names.length; index += 1) row[names[index] as string] = values[index] as Value
  return row
}

function noBinding(what: string, cause?: unknown): LeaseholdError {
  const message = `${what}. Run: npm install libsql (or use Node 22.13 or newer)`
  return new LeaseholdError('UNAVAILABLE', message, { reason: 'configuration', cause })
}
