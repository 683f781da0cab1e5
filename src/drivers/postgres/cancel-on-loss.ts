import { setTimeout as pause } from 'node:timers/promises'
import { LeaseholdError } from '../../core/errors.ts'
import { connectionsTo, type Connections, type PinnedConnection } from './connections.ts'
import { answerWithin } from './faults.ts'
import { borrowClient, giveBackClient, isPgPool, type PgPool } from './pg-client.ts'
import { isPostgresJs, type PostgresJs } from './postgres-js-connections.ts'

/** What gives out connections: a `Pool` of pg, or an instance of postgres. */
export type CancellableSource = PgPool | (PostgresJs & { reserve(): Promise<unknown> })

/** The connection that a body gets: a `PoolClient` of pg, or a reserved connection of postgres. */
export type CancellableClient<Source> = Source extends { reserve(): Promise<infer Reserved> }
  ? Reserved
  : Source extends { connect(callback: (...given: infer Given) => void): void }
    ? NonNullable<Given[1]>
    : never

/** A connection of the pool, for the time of one body. */
interface Borrowed {
  readonly client: unknown
  /** The server's process behind the connection, also behind a pooler that keeps sessions. */
  readonly processId: number
  /** Waits for an answer to a statement that changes nothing. Rejects if the connection is broken. */
  settle(): Promise<void>
  giveBack(broken: boolean): void
}

/** How long the server may take to carry out a cancellation, or to answer a statement that does nothing. */
const answerMs = 5000
/** The pauses between two cancellations of a body that goes on: a cancellation between two of its statements has no effect. */
const pauseMinMs = 20
const pauseMaxMs = 1000
/** The server's code of a statement that was cancelled. */
const cancelled = '57014'

const cancelSql = 'select pg_cancel_backend($1)::text'
/** Each has a listener on its pool, so there is one for each pool. */
const connectionsOf = new WeakMap<CancellableSource, Promise<Connections>>()

/**
 * Runs `body` on a connection of its own, and cancels the statement that runs there when the lease is lost: a late query ends within
 * milliseconds instead of going on for minutes beside the next holder's. Rejects with the LOST error then. The connection goes back to the
 * pool when the body is done, and can be used again. The cancellation comes over one more connection, beside the pool.
 *
 * A statement that has committed stays committed: pass the fence with every write, see `leasehold/guards`.
 *
 * @example
 * ```ts
 * import { cancelOnLoss } from 'leasehold/postgres'
 * import { Pool } from 'pg'
 *
 * const pool = new Pool()
 * await locks.run('nightly-report', (lease) =>
 *   cancelOnLoss(lease, pool, (client) => client.query('refresh materialized view report')),
 * )
 * ```
 */
export async function cancelOnLoss<Source extends CancellableSource, Result>(
  lease: { readonly signal: AbortSignal },
  source: Source,
  body: (client: CancellableClient<Source>) => PromiseLike<Result>,
): Promise<Result> {
  const { signal } = lease
  if (typeof body !== 'function') throw new LeaseholdError('INVALID', 'cancelOnLoss needs a function to run.')
  signal.throwIfAborted()
  const borrowed = await borrow(source)
  const finished = new AbortController()
  let cancelling: Promise<boolean> | undefined
  const onLost = (): void => {
    cancelling = cancelUntil(finished.signal, source, borrowed.processId)
  }
  let isBroken = false
  try {
    // The lease may have been lost while the pool had no connection.
    signal.throwIfAborted()
    signal.addEventListener('abort', onLost, { once: true })
    const result = await body(borrowed.client as CancellableClient<Source>)
    signal.throwIfAborted()
    return result
  } catch (error) {
    if (signal.aborted && codeOf(error) === cancelled) throw signal.reason
    throw error
  } finally {
    signal.removeEventListener('abort', onLost)
    finished.abort()
    // No cancellation may reach the connection when the pool has given it to somebody else.
    if (cancelling !== undefined && (await cancelling)) isBroken = !(await isUsable(borrowed))
    borrowed.giveBack(isBroken)
  }
}

/** Cancels what the process runs, again and again until the body is done. Resolves with whether anything was sent. Never rejects. */
async function cancelUntil(finished: AbortSignal, source: CancellableSource, processId: number): Promise<boolean> {
  let connection: PinnedConnection | undefined
  let isSent = false
  for (let pauseMs = pauseMinMs; !finished.aborted; pauseMs = Math.min(2 * pauseMs, pauseMaxMs)) {
    try {
      connection ??= await pinned(source)
      if (finished.aborted) break
      isSent = true
      await connection.ask(cancelSql, [processId], answerMs)
    } catch {
      // The server may be back, or take connections again, before the body ends.
      await connection?.close().catch(() => {})
      connection = undefined
    }
    await pause(pauseMs, undefined, { signal: finished }).catch(() => {})
  }
  await connection?.close().catch(() => {})
  return isSent
}

async function pinned(source: CancellableSource): Promise<PinnedConnection> {
  let connections = connectionsOf.get(source)
  if (connections === undefined) {
    connections = connectionsTo(source, 1)
    connectionsOf.set(source, connections)
  }
  return (await connections).pin(() => {})
}

/** Lets a cancellation that is still on its way hit a statement that does nothing. */
async function isUsable(borrowed: Borrowed): Promise<boolean> {
  try {
    await answerWithin(borrowed.settle(), answerMs)
    return true
  } catch (error) {
    // The server has answered: by an error, but the connection goes on.
    return codeOf(error) === cancelled || codeOf(error) === '25P02'
  }
}

async function borrow(source: CancellableSource): Promise<Borrowed> {
  if (isPostgresJs(source) && 'reserve' in source) return borrowReserved(source)
  if (typeof source === 'object' && source !== null && isPgPool(source)) return borrowPooled(source)
  throw new LeaseholdError('INVALID', 'cancelOnLoss takes a Pool of pg, or an instance of postgres.')
}

async function borrowPooled(pool: PgPool): Promise<Borrowed> {
  const client = await borrowClient(pool)
  try {
    const { rows } = await client.query({ text: processIdSql })
    return {
      client,
      processId: processIdIn(rows),
      settle: async () => void (await client.query({ text: 'select 1' })),
      giveBack: (broken) => giveBackClient(client, broken),
    }
  } catch (error) {
    giveBackClient(client, true)
    throw error
  }
}

async function borrowReserved(sql: { reserve(): Promise<unknown> }): Promise<Borrowed> {
  const reserved = (await sql.reserve()) as PostgresJs & { release(): void }
  try {
    const rows = await reserved.unsafe(processIdSql)
    return {
      client: reserved,
      processId: processIdIn(rows),
      settle: async () => void (await reserved.unsafe('select 1')),
      giveBack: () => reserved.release(),
    }
  } catch (error) {
    reserved.release()
    throw error
  }
}

const processIdSql = 'select pg_backend_pid()'

/** The only value of the only row: an instance may transform the names of columns. */
function processIdIn([row]: readonly object[]): number {
  return Number(Object.values(row ?? {})[0])
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null | undefined)?.code
}
