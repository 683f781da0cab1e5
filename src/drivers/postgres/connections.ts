import { LeaseholdError } from '../../core/errors.ts'
import { isPgClient, isPgPool, type PgClient, type PgPool } from './pg-client.ts'
import { PgConnections } from './pg-connections.ts'
import { isPostgresJs, PostgresJsConnections, type PostgresJs } from './postgres-js-connections.ts'
import { openUrl } from './url.ts'

/** What is sent with a statement. @internal */
export type PgValue = string | number | boolean | null

/** One row of an answer. */
export type PgRow = Readonly<Record<string, unknown>>

/** A connection on which notifications arrive, for as long as it lasts. @internal */
export interface ListeningConnection {
  close(): Promise<void>
}

/** A connection of our own: what is done on it belongs to one session of the server. @internal */
export interface PinnedConnection {
  ask(text: string, values: readonly PgValue[], withinMs: number): Promise<string>
  query(text: string, values: readonly PgValue[], withinMs: number): Promise<readonly PgRow[]>
  close(): Promise<void>
}

/** The way to a database, whichever client package makes it. Errors are what that package throws. @internal */
export interface Connections {
  /**
   * What a statement answers in the only column, a text, of its only row; empty if there is none. It is a transaction of
   * its own, on any connection. Throws {@link NotSent} if it surely never reached the server, {@link CallTimedOut} when `withinMs` have passed.
   */
  ask(text: string, values: readonly PgValue[], withinMs: number): Promise<string>
  /** The same for a statement with any rows. */
  query(text: string, values: readonly PgValue[], withinMs: number): Promise<readonly PgRow[]>
  /** Runs several statements without values, all or none of them. */
  script(text: string, withinMs: number): Promise<void>
  /** Listens on a connection that no query waits for. `lost` is called once it has ended by itself. */
  listen(channel: string, onPayload: (payload: string) => void, lost: () => void): Promise<ListeningConnection>
  /** A connection of our own. `lost` is called once it has ended by itself. */
  pin(lost: () => void): Promise<PinnedConnection>
  /** Closes what was opened here. A pool or client that was handed in stays open. */
  close(): Promise<void>
}

/** What a user may hand in: a URL, a `pg` Pool or Client, or a `postgres` instance. */
export type PostgresSource = string | PgPool | PgClient | PostgresJs

/** The way to the database of a source. Nothing is connected yet. @internal */
export async function connectionsTo(source: PostgresSource, poolSize: number): Promise<Connections> {
  if (typeof source === 'string') return openUrl(source, poolSize)
  if (isPostgresJs(source)) return new PostgresJsConnections(source, false)
  if (isPgPool(source) || isPgClient(source)) return new PgConnections(source, false)
  throw new LeaseholdError('INVALID', 'Hand in a URL, a Pool or Client of pg, or an instance of postgres.')
}
