import { CallTimedOut } from '../kit/call-timeout.ts'
import { answerWithin, InTransaction, NotSent, sparesConnection } from './faults.ts'
import { borrowClient, eventsOf, giveBackClient, isInTransaction, type PgPool, type PgPoolClient } from './pg-client.ts'

/** A pool that counts the callers that wait for a client. */
interface CountingPool {
  readonly waitingCount: number
}

interface Kept {
  readonly client: PgPoolClient
  readonly since: number
}

/** A firewall or proxy may have dropped a connection that was idle for so long. */
const keptMaxMs = 30_000

/**
 * Clients borrowed from a pool. Those of a pool of our own are kept for the next request, as borrowing costs as much as a short
 * statement; those of a user's pool go back at once.
 */
export class PooledClients {
  readonly #pool: PgPool
  readonly #keeps: boolean
  readonly #kept: Kept[] = []
  readonly #watched = new WeakSet<PgPoolClient>()
  #closed = false

  constructor(pool: PgPool, keeps: boolean) {
    this.#pool = pool
    this.#keeps = keeps
  }

  /** Throws {@link NotSent} if no client came free in time. */
  async use<Result>(withinMs: number, work: (client: PgPoolClient) => Promise<Result>): Promise<Result> {
    const startedAt = performance.now()
    const client = this.#take() ?? (await this.#borrow(withinMs))
    try {
      const result = await answerWithin(work(client), Math.max(1, withinMs - (performance.now() - startedAt)))
      // A transaction that was left open ends with the connection, and undoes the statement.
      if (isInTransaction(client)) throw new NotSent(new InTransaction())
      this.#putBack(client)
      return result
    } catch (error) {
      // A connection that did not answer in time may give that answer to the next statement.
      if (sparesConnection(error)) this.#putBack(client)
      else giveBackClient(client, true)
      // What cut this connection off may have cut off the idle ones: a renewal has no time to try each.
      if (error instanceof CallTimedOut) this.#giveBackKept(true)
      throw error
    }
  }

  /** Gives back all clients that are kept. */
  close(): void {
    this.#closed = true
    this.#giveBackKept(false)
  }

  #take(): PgPoolClient | undefined {
    for (let kept = this.#kept.pop(); kept !== undefined; kept = this.#kept.pop()) {
      const { client, since } = kept
      if (performance.now() - since < keptMaxMs) {
        keepProcess(client, true)
        return client
      }
      giveBackClient(client, true)
    }
    return undefined
  }

  async #borrow(withinMs: number): Promise<PgPoolClient> {
    const borrowing = borrowClient(this.#pool)
    try {
      return await answerWithin(borrowing, withinMs)
    } catch (error) {
      // If the client comes after all, it goes back to the pool.
      borrowing.then(
        (client) => giveBackClient(client, false),
        () => {},
      )
      throw new NotSent(error)
    }
  }

  #putBack(client: PgPoolClient): void {
    const isWanted = (this.#pool as unknown as CountingPool).waitingCount > 0
    if (!this.#keeps || this.#closed || isWanted) return giveBackClient(client, false)
    this.#watch(client)
    // Idle connections do not keep a process from ending.
    keepProcess(client, false)
    this.#kept.push({ client, since: performance.now() })
  }

  #giveBackKept(destroy: boolean): void {
    for (const { client } of this.#kept.splice(0)) giveBackClient(client, destroy)
  }

  /** Drops a client that ends while it is kept. */
  #watch(client: PgPoolClient): void {
    if (this.#watched.has(client)) return
    this.#watched.add(client)
    const drop = (): void => {
      const place = this.#kept.findIndex((kept) => kept.client === client)
      if (place < 0) return
      this.#kept.splice(place, 1)
      giveBackClient(client, true)
    }
    eventsOf(client).on('error', drop)
    eventsOf(client).on('end', drop)
  }
}

/** Whether the client's connection keeps the process from ending. */
function keepProcess(client: PgPoolClient, keeps: boolean): void {
  const { ref, unref } = client as { ref?: () => void; unref?: () => void }
  ;(keeps ? ref : unref)?.call(client)
}
