import { answerWithin } from './faults.ts'
import type { PgRow } from './connections.ts'

/** How long a server may take to hear a goodbye. */
const goodbyeMs = 1000

/** What we use of a `Client` of pg. It must be connected. */
export interface PgClient {
  query(query: { text: string; values?: unknown[]; name?: string }): Promise<{ rows: PgRow[] }>
  connect(): Promise<unknown>
  end(): Promise<void>
}

/** A client that a pool lent. */
export interface PgPoolClient extends PgClient {
  release(destroy?: boolean): void
}

/** What we use of a `Pool` of pg. */
export interface PgPool {
  connect(): Promise<PgPoolClient>
  end(): Promise<void>
  readonly totalCount: number
}

/** Clients and pools of pg tell what happens to them by events. */
interface Emitter {
  on(event: 'error' | 'end' | 'notification', listener: (value: never) => void): unknown
  removeListener(event: 'error' | 'end' | 'notification', listener: (value: never) => void): unknown
}

/** @internal */
export function eventsOf(source: PgClient | PgPool): Emitter {
  return source as unknown as Emitter
}

/** @internal */
export function isPgPool(source: object): source is PgPool {
  return 'totalCount' in source && 'connect' in source
}

/** @internal */
export function isPgClient(source: object): source is PgClient {
  return 'query' in source && 'connect' in source && !('release' in source)
}

/** Ends a client's connection, also to a server that has fallen silent. Never rejects. @internal */
export async function part(client: PgClient): Promise<void> {
  // A client waits for ever for the other side to hang up.
  await answerWithin(client.end(), goodbyeMs).catch(() => hangUp(client))
}

/** Ends a connection without a word. @internal */
export function hangUp(client: PgClient): void {
  const { connection } = client as { connection?: { stream?: { destroy?(): void } } }
  connection?.stream?.destroy?.()
}

/** Whether a transaction is under way on the connection, as the server said with its last answer. Older clients do not tell. @internal */
export function isInTransaction(client: PgClient): boolean {
  const status = (client as { getTransactionStatus?(): string | null }).getTransactionStatus?.()
  return status === 'T' || status === 'E'
}

/** Listens to errors that are dealt with elsewhere: unheard, they would end the process. @internal */
export function ignore(): void {}
