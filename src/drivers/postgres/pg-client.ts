import type { Row } from './connections.ts'

/** What we use of a `Client` of pg. It must be connected. */
export interface PgClient {
  query(query: { text: string; values?: unknown[]; name?: string }): Promise<{ rows: Row[] }>
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

export function eventsOf(source: PgClient | PgPool): Emitter {
  return source as unknown as Emitter
}

export function isPgPool(source: object): source is PgPool {
  return 'totalCount' in source && 'connect' in source
}

export function isPgClient(source: object): source is PgClient {
  return 'query' in source && 'connect' in source && !('release' in source)
}

/** Listens to errors that are dealt with elsewhere: unheard, they would end the process. */
export function ignore(): void {}
