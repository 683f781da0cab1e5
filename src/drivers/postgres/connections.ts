import { LeaseholdError } from '../../core/errors.ts'
import { isPgClient, isPgPool, type PgClient, type PgPool } from './pg-client.ts'
import { PgConnections } from './pg-connections.ts'
import { isPostgresJs, PostgresJsConnections, type PostgresJs } from './postgres-js-connections.ts'
import { openUrl } from './url.ts'

/** A value that is sent with a statement. @internal */
export type PgValue = string | number | boolean | null

/** One row of an answer. */
export type PgRow = Readonly<Record<string, unknown>>

/** A connection that listens. @internal */
export interface ListeningConnection {
  close(): Promise<void>
}

/** A connection of our own: all its statements run in one session of the server. @internal */
export interface PinnedConnection {
  ask(text: string, values: readonly PgValue[], withinMs: number): Promise<string>
  query(text: string, values: readonly PgValue[], withinMs: number): Promise<readonly PgRow[]>
  close(): Promise<void>
}

/** Connections to a database, by whichever client package. Errors are those of that package. @internal */
export interface Connections {
  /**
   * The text in the only column of the only row that a statement answers; empty if there is no row. The statement is a transaction of
   * its own, on any connection. Throws `NotSent` if it surely never reached the server, `CallTimedOut` when `withinMs` have passed.
   */
  ask(text: string, values: readonly PgValue[], withinMs: number): Promise<string>
  /** The rows that a statement answers; otherwise as `ask`. */
  query(text: string, values: readonly PgValue[], withinMs: number): Promise<readonly PgRow[]>
  /** Runs several statements without values, all or none of them. */
  script(text: string, withinMs: number): Promise<void>
  /** Listens on a connection that no query waits for. `onLost` is called if it ends by itself. */
  listen(channel: string, onPayload: (payload: string) => void, onLost: () => void): Promise<ListeningConnection>
  /** Connects once more. `onLost` is called if that connection ends by itself. */
  pin(onLost: () => void): Promise<PinnedConnection>
  /** Closes what was opened here. A pool or client that was handed in stays open. */
  close(): Promise<void>
}

/** The database to use: a URL, a `pg` Pool or Client, or a `postgres` instance. */
export type PostgresSource = string | PgPool | PgClient | PostgresJs

/** Connections to the database of a source. None is made yet. @internal */
export async function connectionsTo(source: PostgresSource, poolSize: number): Promise<Connections> {
  if (typeof source === 'string') return openUrl(source, poolSize)
  if (isPostgresJs(source)) return new PostgresJsConnections(source, false)
  if (isPgPool(source) || isPgClient(source)) return new PgConnections(source, false)
  throw new LeaseholdError('INVALID', 'Hand in a URL, a Pool or Client of pg, or an instance of postgres.')
}
