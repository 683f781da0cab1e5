import { createHash } from 'node:crypto'
import { CallTimedOut } from '../kit/call-timeout.ts'
import { InTransaction, NotSent, answerWithin } from './faults.ts'
import type { Connections, ListeningConnection, PinnedConnection, PgRow, PgValue } from './connections.ts'
import { eventsOf, hangUp, ignore, isPgPool, part, type PgClient, type PgPool, isInTransaction } from './pg-client.ts'
import { PooledClients } from './pooled-clients.ts'
import { ask } from './pg-statement.ts'

/** A `pg` Pool also says how to connect once more, outside of it. */
interface PoolPlan {
  readonly Client: new (options: unknown) => PgClient
  readonly options: Readonly<Record<string, unknown>>
}

interface Notification {
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
  /** Statements are prepared by name unless something stands between us and the server that may forget them. */
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

  async listen(channel: string, onPayload: (payload: string) => void, lost: () => void): Promise<ListeningConnection> {
    const onNotification = ({ channel: name, payload }: Notification): void => {
      if (name === channel) onPayload(payload ?? '')
    }
    const source = this.#source
    if (isPgPool(source)) {
      const client = await this.#connectApart(lost)
      eventsOf(client).on('notification', onNotification)
      try {
        await answerWithin(client.query({ text: `listen ${channel}` }), listenMs)
      } catch (error) {
        await part(client)
        throw error
      }
      return { close: () => part(client) }
    }
    const events = eventsOf(source)
    const deafen = (): void => {
      events.removeListener('notification', onNotification)
      events.removeListener('end', lost)
    }
    events.on('notification', onNotification)
    events.on('end', lost)
    try {
      await this.script(`listen ${channel}`, listenMs)
    } catch (error) {
      deafen()
      throw error
    }
    return {
      close: async () => {
        deafen()
        await this.script(`unlisten ${channel}`, listenMs)
      },
    }
  }

  async pin(lost: () => void): Promise<PinnedConnection> {
    if (!isPgPool(this.#source)) throw new NotSent(new Error('One client cannot be shared with session locks'))
    const client = await this.#connectApart(lost)
    const inTime = async <Result>(work: Promise<Result>, withinMs: number): Promise<Result> => {
      try {
        return await answerWithin(work, withinMs)
      } catch (error) {
        if (error instanceof CallTimedOut) hangUp(client)
        throw error
      }
    }
    return {
      async query(text, values, withinMs) {
        // Without values it may be the very question whether there is a pooler, which would forget names.
        const query = { text, values: [...values], ...(values.length > 0 && { name: nameOf(text) }) }
        return (await inTime(client.query(query), withinMs)).rows
      },
      ask: (text, values, withinMs) => inTime(ask(client, text, values, nameOf(text)), withinMs),
      close: () => part(client),
    }
  }

  async close(): Promise<void> {
    if (this.#clients instanceof PooledClients) this.#clients.close()
    if (this.#owned) await this.#source.end()
  }

  async #preparesOn(client: PgClient): Promise<boolean> {
    return (this.#prepares ??= await isDirect(client))
  }

  /** A connection beside the pool: the pool may be as small as one. */
  async #connectApart(lost: () => void): Promise<PgClient> {
    const { Client, options } = this.#source as unknown as PoolPlan
    const client = new Client({ ...options, password: options['password'], keepAlive: true })
    const events = eventsOf(client)
    events.on('error', ignore)
    events.on('end', lost)
    try {
      await answerWithin(client.connect(), Number(options['connectionTimeoutMillis']) || connectMs)
    } catch (error) {
      events.removeListener('end', lost)
      hangUp(client)
      // Told as what it is: the network, and not a pool that is used up.
      throw new NotSent(error instanceof CallTimedOut ? new Error('No connection was made in time') : error)
    }
    return client
  }
}

/** Whether the server at the other end is the one that answers: a pooler would give a number of its own. */
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

/** A name for a prepared statement, made of its text: another copy of this package may use the same connection. */
function nameOf(text: string): string {
  let name = names.get(text)
  if (name === undefined) {
    const digest = createHash('sha256').update(text).digest('hex')
    names.set(text, (name = `leasehold_${digest.slice(0, 32)}`))
  }
  return name
}

/** A single client for all requests. They take turns: pg no longer wants a statement before the last is answered. */
export class SerialClient {
  readonly #client: PgClient
  /** Never rejects. */
  #turn: Promise<unknown> = Promise.resolve()

  constructor(client: PgClient) {
    this.#client = client
  }

  /** Throws {@link NotSent} if its turn did not come in time. */
  async use<Result>(withinMs: number, work: (client: PgClient) => Promise<Result>): Promise<Result> {
    const request = { begun: false, givenUp: false }
    const before = this.#turn
    const result = (async () => {
      await before
      if (request.givenUp) throw new Error('The request was given up before its turn')
      request.begun = true
      const answer = await work(this.#client)
      if (isInTransaction(this.#client)) throw new InTransaction()
      return answer
    })()
    this.#turn = Promise.allSettled([result])
    try {
      return await answerWithin(result, withinMs)
    } catch (error) {
      if (request.begun) throw error
      request.givenUp = true
      throw new NotSent(error)
    }
  }
}
