import { loadFirst, type OptionalPackage } from '../../core/machine/optional-package.ts'
import { CallTimedOut } from '../kit/call-timeout.ts'
import { NotSent, answerWithin } from './faults.ts'
import type { Connections, ListeningConnection, PinnedConnection, PgRow, PgValue } from './connections.ts'

/** A statement that was sent, or waits to be sent. */
type Pending = Promise<readonly PgRow[]> & {
  cancel(): void
  /** `cancel` calls it and ignores its promise, which is rejected if the server cannot be reached. */
  canceller?: ((statement: Pending) => unknown) | null
}

/** The package, in the versions that fit. @internal */
export const postgresJs: OptionalPackage<'postgres'> = { name: 'postgres', fits: ['3.4'] }

/** The part of an instance of `postgres` that is used here. */
export interface PostgresJs {
  unsafe(text: string, values?: never[], options?: { prepare?: boolean }): PromiseLike<readonly PgRow[]>
  listen(channel: string, onPayload: (payload: string) => void): Promise<{ readonly unlisten: () => Promise<void> }>
  end(options?: { timeout?: number }): Promise<void>
  readonly options: {
    readonly max: number
    readonly prepare: boolean
    readonly transform?: { readonly column?: { readonly from?: ((name: string) => string) | undefined } }
  }
}

/** Whether a source is an instance of `postgres`. @internal */
export function isPostgresJs(source: unknown): source is PostgresJs {
  return typeof source === 'function' && 'unsafe' in source && 'listen' in source
}

/** How long it may take to begin and to end listening. */
const listenMs = 5000
const unlistenMs = 1000
/** How long an instance that was replaced may finish its statements, in seconds. */
const replacedSeconds = 5
/** The most connections of an instance that replaces another. */
const replacementMax = 4

/** Codes of `postgres` for connections that were never made. */
const neverConnected = new Set(['CONNECT_TIMEOUT', 'CONNECTION_ENDED', 'ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN'])

/** The package, for instances beside the one that was given. */
async function loadPostgresJs(): Promise<typeof import('postgres')> {
  const { module } = await loadFirst('Another connection of postgres.js', [postgresJs])
  return (module as { readonly default: typeof import('postgres') }).default
}

/** Connections made by `postgres` (postgres.js). @internal */
export class PostgresJsConnections implements Connections {
  readonly #given: PostgresJs
  readonly #owned: boolean
  /** The instance that was given, or that replaced it. */
  #sql: PostgresJs
  #closed = false

  constructor(sql: PostgresJs, owned: boolean) {
    this.#given = sql
    this.#sql = sql
    this.#owned = owned
  }

  ask(text: string, values: readonly PgValue[], withinMs: number): Promise<string> {
    return this.#use((sql) => answer(sql, text, values, withinMs, sql.options.prepare))
  }

  query(text: string, values: readonly PgValue[], withinMs: number): Promise<readonly PgRow[]> {
    return this.#use((sql) => rowsOf(sql, text, values, withinMs, sql.options.prepare))
  }

  async script(text: string, withinMs: number): Promise<void> {
    await this.#use((sql) => run(sql, text, [], withinMs, false))
  }

  async #use<Result>(work: (sql: PostgresJs) => Promise<Result>): Promise<Result> {
    const sql = this.#sql
    try {
      return await work(sql)
    } catch (error) {
      if (error instanceof CallTimedOut) await this.#replace(sql)
      throw error
    }
  }

  /** A connection that no longer answers cannot be ended, and gets more and more statements: use another instance. */
  async #replace(silent: PostgresJs): Promise<void> {
    const postgres = await loadPostgresJs()
    if (this.#closed || this.#sql !== silent) return
    const options = { ...silent.options, max: Math.min(silent.options.max, replacementMax) }
    this.#sql = postgres(options as object)
    if (this.#owned || silent !== this.#given) silent.end({ timeout: replacedSeconds }).catch(() => {})
  }

  async listen(channel: string, onPayload: (payload: string) => void): Promise<ListeningConnection> {
    // The instance has one connection for all listeners, and reconnects by itself. If that fails, the probe finds out.
    const listening = this.#sql.listen(channel, onPayload)
    try {
      const { unlisten } = await answerWithin(listening, listenMs)
      return { close: () => answerWithin(unlisten(), unlistenMs) }
    } catch (error) {
      // If it begins to listen after all, end that.
      listening.then(({ unlisten }) => unlisten()).catch(() => {})
      throw error
    }
  }

  async pin(onLost: () => void): Promise<PinnedConnection> {
    // A reserved connection fails badly when it ends; an instance of one connection reports that by `onclose`.
    const postgres = await loadPostgresJs()
    const options = { ...this.#given.options, max: 1, idle_timeout: null, max_lifetime: null, onclose: onLost }
    const sql = postgres(options as object)
    return {
      ask: (text, values, withinMs) => answer(sql, text, values, withinMs, false),
      query: (text, values, withinMs) => rowsOf(sql, text, values, withinMs, false),
      close: () => sql.end({ timeout: 0 }),
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    if (this.#owned || this.#sql !== this.#given) await this.#sql.end({ timeout: 1 })
  }
}

async function answer(...statement: Parameters<typeof run>): Promise<string> {
  const [row] = await run(...statement)
  return (Object.values(row ?? {})[0] ?? '') as string
}

/** The rows, their columns found by the names in our statement, also if the instance transforms names. */
async function rowsOf(...statement: Parameters<typeof run>): Promise<readonly PgRow[]> {
  const rows = await run(...statement)
  const from = statement[0].options.transform?.column?.from
  if (from === undefined) return rows
  return rows.map((row) => new Proxy(row, { get: (columns, name) => columns[from(String(name))] }))
}

async function run(
  sql: PostgresJs,
  text: string,
  values: readonly PgValue[],
  withinMs: number,
  prepare: boolean,
): Promise<readonly PgRow[]> {
  const pending = sql.unsafe(text, values as never[], { prepare }) as Pending
  try {
    return await answerWithin(pending, withinMs)
  } catch (error) {
    if (error instanceof CallTimedOut) cancel(pending)
    const { code } = error as { code?: unknown }
    throw typeof code === 'string' && neverConnected.has(code) ? new NotSent(error) : error
  }
}

/** Cancels a statement by a connection of its own. If that cannot be made, the statement runs to its end. */
function cancel(pending: Pending): void {
  const { canceller } = pending
  if (typeof canceller !== 'function') return pending.cancel()
  pending.canceller = null
  Promise.resolve(canceller(pending)).catch(() => {})
}
