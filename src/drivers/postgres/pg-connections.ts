import { createHash } from 'node:crypto'
import { CallTimedOut } from '../kit/call-timeout.ts'
import { InTransaction, NotSent, answerWithin } from './faults.ts'
import type { Connections, ListeningConnection, PinnedConnection, PgRow, PgValue } from './connections.ts'
import {
  eventsOf,
  destroySocket,
  ignore,
  isPgPool,
  disconnect,
  type PgClient,
  type PgPool,
  isInTransaction,
} from './pg-client.ts'
import { PooledClients } from './pooled-clients.ts'
import { ask } from './pg-statement.ts'

/** How a `pg` Pool connects: its class of clients, and their options. */
interface PoolSetup {
  readonly Client: new (options: unknown) => PgClient
  readonly options: Readonly<Record<string, unknown>>
}

interface PgNotification {
  readonly channel: string
  readonly payload?: string
}

/** How long it may take to begin or end listening. */
const listenMs = 5000
/** How long it may take to connect, where the pool does not say. */
const connectMs = 6000

/** Connections made by `pg`: a pool, or a single client that the user has connected. */
export class PgConnections implements Connections {
  readonly #source: PgPool | PgClient
  readonly #owned: boolean
  readonly #clients: PooledClients | SerialClient
  /** Statements are prepared by name, unless a pooler may forget them. Undefined: not known yet. */
  #prepares: boolean | undefined

  constructor(source: PgPool | PgClient, owned: boolean) {
    this.#source = source
    this.#owned = owned
    this.#clients = isPgPool(source) ? new PooledClients(source, owned) : new SerialClient(source)
    // Without a listener, the end of an idle connection would end the process.
    eventsOf(source).on('error', ignore)
  }

  query(text: string, values: readonly PgValue[], withinMs: number): Promise<readonly PgRow[]> {
    return this.#clients.use(withinMs, async (client: PgClient) => {
      const name = (await this.#preparesOn(client)) ? nameOf(text) : undefined
      return (await client.query({ text, values: [...values], ...(name !== undefined && { name }) })).rows
    })
  }

  ask(text: string, values: readonly PgValue[], withinMs: number): Promise<string> {
    return this.#clients.use(withinMs, (client: PgClient) =>
      this.#prepares === undefined
        ? this.#preparesOn(client).then((prepares) => ask(client, text, values, prepares ? nameOf(text) : undefined))
        : ask(client, text, values, this.#prepares ? nameOf(text) : undefined),
    )
  }

  async script(text: string, withinMs: number): Promise<void> {
    await this.#clients.use(withinMs, (client: PgClient) => client.query({ text }))
  }

  async listen(
    channel: string,
    onPayload: (payload: string) => void,
    onLost: () => void,
  ): Promise<ListeningConnection> {
    const onNotification = ({ channel: name, payload }: PgNotification): void => {
      if (name === channel) onPayload(payload ?? '')
    }
    const source = this.#source
    if (isPgPool(source)) {
      const client = await this.#connectApart(onLost)
      eventsOf(client).on('notification', onNotification)
      try {
        await answerWithin(client.query({ text: `listen ${channel}` }), listenMs)
      } catch (error) {
        await disconnect(client)
        throw error
      }
      return { close: () => disconnect(client) }
    }
    const events = eventsOf(source)
    const stopListening = (): void => {
      events.removeListener('notification', onNotification)
      events.removeListener('end', onLost)
    }
    events.on('notification', onNotification)
    events.on('end', onLost)
    try {
      await this.script(`listen ${channel}`, listenMs)
    } catch (error) {
      stopListening()
      throw error
    }
    return {
      close: async () => {
        stopListening()
        await this.script(`unlisten ${channel}`, listenMs)
      },
    }
  }

  async pin(onLost: () => void): Promise<PinnedConnection> {
    if (!isPgPool(this.#source)) throw new NotSent(new Error('One client cannot be shared with session locks'))
    const client = await this.#connectApart(onLost)
    const inTime = async <Result>(work: Promise<Result>, withinMs: number): Promise<Result> => {
      try {
        return await answerWithin(work, withinMs)
      } catch (error) {
        if (error instanceof CallTimedOut) destroySocket(client)
        throw error
      }
    }
    return {
      async query(text, values, withinMs) {
        // A statement without values may be the one that finds out a pooler, which would forget names.
        const query = { text, values: [...values], ...(values.length > 0 && { name: nameOf(text) }) }
        return (await inTime(client.query(query), withinMs)).rows
      },
      ask: (text, values, withinMs) => inTime(ask(client, text, values, nameOf(text)), withinMs),
      close: () => disconnect(client),
    }
  }

  async close(): Promise<void> {
    if (this.#clients instanceof PooledClients) this.#clients.close()
    if (this.#owned) await this.#source.end()
  }

  async #preparesOn(client: PgClient): Promise<boolean> {
    return (this.#prepares ??= await isDirect(client))
  }

  /** Connects beside the pool, which may have one connection only. */
  async #connectApart(onLost: () => void): Promise<PgClient> {
    const { Client, options } = this.#source as unknown as PoolSetup
    const client = new Client({ ...options, password: options['password'], keepAlive: true })
    const events = eventsOf(client)
    events.on('error', ignore)
    events.on('end', onLost)
    try {
      await answerWithin(client.connect(), Number(options['connectionTimeoutMillis']) || connectMs)
    } catch (error) {
      events.removeListener('end', onLost)
      destroySocket(client)
      // Not as a timeout, which would be explained as a pool that is used up.
      throw new NotSent(error instanceof CallTimedOut ? new Error('No connection was made in time') : error)
    }
    return client
  }
}

/** Whether the client is connected to the server itself: a pooler announces a process id of its own. */
async function isDirect(client: PgClient): Promise<boolean> {
  const processId = processIdOf(client)
  const { rows } = await client.query({ text: 'select pg_backend_pid() as "processId"' })
  return processId !== undefined && rows[0]?.['processId'] === processId
}

function processIdOf(client: PgClient): number | undefined {
  const { processID } = client as { processID?: unknown }
  return typeof processID === 'number' ? processID : undefined
}

const names = new Map<string, string>()

/** A name for a prepared statement, made of its text, as another copy of this package may use the same connection. */
function nameOf(text: string): string {
  let name = names.get(text)
  if (name === undefined) {
    const digest = createHash('sha256').update(text).digest('hex')
    names.set(text, (name = `leasehold_${digest.slice(0, 32)}`))
  }
  return name
}

/** One client for all requests, one after the other: pg wants no statement before the last is answered. */
class SerialClient {
  readonly #client: PgClient
  /** Never rejects. */
  #turn: Promise<unknown> = Promise.resolve()

  constructor(client: PgClient) {
    this.#client = client
  }

  /** Throws {@link NotSent} if the turn of `work` did not come in time. */
  async use<Result>(withinMs: number, work: (client: PgClient) => Promise<Result>): Promise<Result> {
    const turn = { begun: false, givenUp: false }
    const before = this.#turn
    const result = (async () => {
      await before
      if (turn.givenUp) throw new Error('The request was given up before its turn')
      turn.begun = true
      const answer = await work(this.#client)
      if (isInTransaction(this.#client)) throw new InTransaction()
      return answer
    })()
    this.#turn = Promise.allSettled([result])
    try {
      return await answerWithin(result, withinMs)
    } catch (error) {
      if (turn.begun) throw error
      turn.givenUp = true
      throw new NotSent(error)
    }
  }
}
