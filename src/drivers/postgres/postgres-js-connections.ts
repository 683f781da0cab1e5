import { loadFirst, type OptionalPackage } from '../../core/machine/optional-package.ts'
import { NoAnswer, NotSent, within } from './bounds.ts'
import type { Connections, Ear, Pinned, Row, Value } from './connections.ts'

type Pending = Promise<readonly Row[]> & { cancel(): void }

/** The package, in the versions that fit. */
export const postgresJs: OptionalPackage<'postgres'> = { name: 'postgres', fits: ['3.4'] }

/** What we use of an instance of `postgres`. */
export interface PostgresJs {
  unsafe(text: string, values?: never[], options?: { prepare?: boolean }): PromiseLike<readonly Row[]>
  listen(channel: string, heard: (payload: string) => void): Promise<{ readonly unlisten: () => Promise<void> }>
  end(options?: { timeout?: number }): Promise<void>
  readonly options: {
    readonly prepare: boolean
    readonly transform?: { readonly column?: { readonly from?: ((name: string) => string) | undefined } }
  }
}

export function isPostgresJs(source: unknown): source is PostgresJs {
  return typeof source === 'function' && 'unsafe' in source && 'listen' in source
}

/** How long it may take to begin to listen, and to end it. */
const listenMs = 5000
const goodbyeMs = 1000

/** Codes of `postgres` for connections that were never made. */
const neverConnected = new Set(['CONNECT_TIMEOUT', 'CONNECTION_ENDED', 'ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN'])

/** Connections made by `postgres` (postgres.js). */
export class PostgresJsConnections implements Connections {
  readonly #sql: PostgresJs
  readonly #owned: boolean

  constructor(sql: PostgresJs, owned: boolean) {
    this.#sql = sql
    this.#owned = owned
  }

  ask(text: string, values: readonly Value[], withinMs: number): Promise<string> {
    return answer(this.#sql, text, values, withinMs, this.#sql.options.prepare)
  }

  query(text: string, values: readonly Value[], withinMs: number): Promise<readonly Row[]> {
    return rowsOf(this.#sql, text, values, withinMs, this.#sql.options.prepare)
  }

  async script(text: string, withinMs: number): Promise<void> {
    await run(this.#sql, text, [], withinMs, false)
  }

  async listen(channel: string, heard: (payload: string) => void): Promise<Ear> {
    // It has a connection of its own for all listeners, and makes it anew when it is lost. The probe tells if it fails.
    const listening = this.#sql.listen(channel, heard)
    try {
      const { unlisten } = await within(listening, listenMs)
      return { close: () => within(unlisten(), goodbyeMs) }
    } catch (error) {
      // Should it come after all, nobody wants it any more.
      listening.then(({ unlisten }) => unlisten()).catch(() => {})
      throw error
    }
  }

  async pin(lost: () => void): Promise<Pinned> {
    // A reserved connection does not outlive its end in peace; an instance of one connection does, and tells of it.
    const { module } = await loadFirst('postgres-advisory over postgres.js', [postgresJs])
    const { default: postgres } = module as { readonly default: typeof import('postgres') }
    const options = { ...this.#sql.options, max: 1, idle_timeout: null, max_lifetime: null, onclose: lost }
    const sql = postgres(options as object) as unknown as PostgresJs
    return {
      ask: (text, values, withinMs) => answer(sql, text, values, withinMs, false),
      query: (text, values, withinMs) => rowsOf(sql, text, values, withinMs, false),
      close: () => sql.end({ timeout: 0 }),
    }
  }

  async close(): Promise<void> {
    if (this.#owned) await this.#sql.end({ timeout: 1 })
  }
}

async function answer(...statement: Parameters<typeof run>): Promise<string> {
  const [row] = await run(...statement)
  return (Object.values(row ?? {})[0] ?? '') as string
}

/** Rows in which columns are found by the names that we gave them, whatever the instance makes of names. */
async function rowsOf(...statement: Parameters<typeof run>): Promise<readonly Row[]> {
  const rows = await run(...statement)
  const from = statement[0].options.transform?.column?.from
  if (from === undefined) return rows
  return rows.map((row) => new Proxy(row, { get: (columns, name) => columns[from(String(name))] }))
}

async function run(
  sql: PostgresJs,
  text: string,
  values: readonly Value[],
  withinMs: number,
  prepare: boolean,
): Promise<readonly Row[]> {
  const pending = sql.unsafe(text, values as never[], { prepare }) as Pending
  try {
    return await within(pending, withinMs)
  } catch (error) {
    if (error instanceof NoAnswer) pending.cancel()
    const { code } = error as { code?: unknown }
    throw typeof code === 'string' && neverConnected.has(code) ? new NotSent(error) : error
  }
}
