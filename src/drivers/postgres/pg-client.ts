import { answerWithin } from './faults.ts'
import type { PgRow } from './connections.ts'

/** How long a server may take to end a connection. */
const endMs = 1000

/** The part of a `Client` of pg that is used here. It must be connected. */
export interface PgClient {
  query(query: { text: string; values?: unknown[]; name?: string }): Promise<{ rows: PgRow[] }>
  connect(): Promise<unknown>
  end(): Promise<void>
}

/** A client that a pool lent. */
export interface PgPoolClient extends PgClient {
  release(destroy?: boolean): void
}

/** The part of a `Pool` of pg that is used here. */
export interface PgPool {
  connect(): Promise<PgPoolClient>
  end(): Promise<void>
  readonly totalCount: number
}

/** Clients and pools of pg are event emitters. */
interface Emitter {
  on(event: 'error' | 'end' | 'notification', listener: (value: never) => void): unknown
  removeListener(event: 'error' | 'end' | 'notification', listener: (value: never) => void): unknown
}

/** The events of a client or pool. @internal */
export function eventsOf(source: PgClient | PgPool): Emitter {
  return source as unknown as Emitter
}

/** Whether a source is a `Pool` of pg. @internal */
export function isPgPool(source: object): source is PgPool {
  return 'totalCount' in source && 'connect' in source
}

/** Whether a source is a `Client` of pg. @internal */
export function isPgClient(source: object): source is PgClient {
  return 'query' in source && 'connect' in source && !('release' in source)
}

/** Ends a client's connection, also if the server no longer answers. Never rejects. @internal */
export async function disconnect(client: PgClient): Promise<void> {
  // A client would wait for ever for the server to close its side.
  await answerWithin(client.end(), endMs).catch(() => destroySocket(client))
}

/** Destroys a client's socket. @internal */
export function destroySocket(client: PgClient): void {
  const { connection } = client as { connection?: { stream?: { destroy?(): void } } }
  connection?.stream?.destroy?.()
}

/** Whether a transaction is open on the connection, by the server's last answer. Older versions of pg do not say. @internal */
export function isInTransaction(client: PgClient): boolean {
  const status = (client as { getTransactionStatus?(): string | null }).getTransactionStatus?.()
  return status === 'T' || status === 'E'
}

/** Listens to errors that are handled elsewhere: without a listener they would end the process. @internal */
export function ignore(): void {}

/**
 * A client of a pool, with its errors handled until {@link giveBackClient}. The pool stops listening when it lends a client, and a server
 * may end the connection in the same packet: whoever awaits the client would listen too late, and the error would end the process.
 */
export function borrowClient(pool: PgPool): Promise<PgPoolClient> {
  return new Promise((resolve, reject) => {
    const lent = (error: unknown, client: PgPoolClient | undefined): void => {
      if (client === undefined) return reject(error instanceof Error ? error : new Error(String(error)))
      eventsOf(client).on('error', ignore)
      resolve(client)
    }
    const lender = pool as { connect(callback: typeof lent): Promise<PgPoolClient> | undefined }
    // A pool that takes no callback gives a promise.
    lender.connect(lent)?.then((client) => lent(undefined, client), reject)
  })
}

/** Gives a borrowed client back, or ends its connection. */
export function giveBackClient(client: PgPoolClient, destroy: boolean): void {
  eventsOf(client).removeListener('error', ignore)
  client.release(destroy)
}
