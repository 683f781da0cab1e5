import { NoAnswer, NotSent, within } from './bounds.ts'
import type { Connections, Ear, Pinned, Row } from './connections.ts'
import { isServerError } from './faults.ts'

/** What we use of a `Client` of pg. It must be connected. */
export interface PgClient {
  query(query: { text: string; values?: unknown[]; name?: string }): Promise<{ rows: Row[] }>
  connect(): Promise<unknown>
  end(): Promise<void>
}

/** What we use of a `Pool` of pg. */
export interface PgPool {
  connect(): Promise<PgClient & { release(destroy?: boolean): void }>
  end(): Promise<void>
  readonly totalCount: number
}

/** Clients and pools of pg tell what happens to them by events. */
interface Emitter {
  on(event: 'error' | 'end' | 'notification', listener: (value: never) => void): unknown
  removeListener(event: 'error' | 'end' | 'notification', listener: (value: never) => void): unknown
}

function eventsOf(source: PgClient | PgPool): Emitter {
  return source as unknown as Emitter
}

/** A `pg` Pool also says how to connect once more, outside of it. */
interface PoolPlan {
  readonly Client: new (options: unknown) => PgClient
  readonly options: Readonly<Record<string, unknown>>
}

interface Notification {
  readonly channel: string
  readonly payload?: string
}

export function isPgPool(source: object): source is PgPool {
  return 'totalCount' in source && 'connect' in source
}

export function isPgClient(source: object): source is PgClient {
  return 'query' in source && 'connect' in source && !('release' in source)
}

/** Connections made by `pg`: a pool, or a single client that the user has connected. */
export class PgConnections implements Connections {
  readonly #source: PgPool | PgClient
  readonly #owned: boolean
  /** Statements are prepared by name unless something stands between us and the server that may forget them. */
  #prepares: boolean | undefined

  constructor(source: PgPool | PgClient, owned: boolean) {
    this.#source = source
    this.#owned = owned
    // Without a listener, the end of an idle connection would end the process.
    eventsOf(source).on('error', ignore)
  }

  async query(text: string, values: readonly unknown[], withinMs: number): Promise<readonly Row[]> {
    return this.#borrow(withinMs, async (client) => {
      this.#prepares ??= await isDirect(client)
      const query = { text, values: [...values], ...(this.#prepares && { name: nameOf(text) }) }
      return (await client.query(query)).rows
    })
  }

  async script(text: string, withinMs: number): Promise<void> {
    await this.#borrow(withinMs, (client) => client.query({ text }))
  }

  async listen(channel: string, heard: (payload: string) => void, lost: () => void): Promise<Ear> {
    const hear = ({ channel: name, payload }: Notification): void => {
      if (name === channel) heard(payload ?? '')
    }
    const source = this.#source
    if (isPgPool(source)) {
      const client = await this.#connectApart(lost)
      eventsOf(client).on('notification', hear)
      await client.query({ text: `listen ${channel}` })
      return { close: () => client.end() }
    }
    const events = eventsOf(source)
    events.on('notification', hear)
    events.on('end', lost)
    await source.query({ text: `listen ${channel}` })
    return {
      close: async () => {
        events.removeListener('notification', hear)
        events.removeListener('end', lost)
        await source.query({ text: `unlisten ${channel}` })
      },
    }
  }

  async pin(lost: () => void): Promise<Pinned> {
    if (!isPgPool(this.#source)) throw new NotSent(new Error('One client cannot be shared with session locks'))
    const client = await this.#connectApart(lost)
    return {
      async query(text, values, withinMs) {
        try {
          // Without values it may be the very question whether there is a pooler, which would forget names.
          const query = { text, values: [...values], ...(values.length > 0 && { name: nameOf(text) }) }
          return (await within(client.query(query), withinMs)).rows
        } catch (error) {
          if (error instanceof NoAnswer) void client.end().catch(() => {})
          throw error
        }
      },
      close: () => client.end(),
    }
  }

  async close(): Promise<void> {
    if (this.#owned) await this.#source.end()
  }

  async #borrow<Result>(withinMs: number, use: (client: PgClient) => Promise<Result>): Promise<Result> {
    const source = this.#source
    if (!isPgPool(source)) return within(use(source), withinMs)
    const client = await checkOut(source, withinMs)
    eventsOf(client).on('error', ignore)
    let destroy = true
    try {
      const result = await within(use(client), withinMs)
      destroy = false
      return result
    } catch (error) {
      destroy = !isServerError(error)
      throw error
    } finally {
      eventsOf(client).removeListener('error', ignore)
      // A connection that did not answer may answer the wrong question later.
      client.release(destroy)
    }
  }

  /** A connection beside the pool: the pool may be as small as one. */
  async #connectApart(lost: () => void): Promise<PgClient> {
    const { Client, options } = this.#source as unknown as PoolPlan
    const client = new Client({ ...options, password: options['password'], keepAlive: true })
    const events = eventsOf(client)
    events.on('error', ignore)
    events.on('end', lost)
    try {
      await client.connect()
    } catch (error) {
      events.removeListener('end', lost)
      throw new NotSent(error)
    }
    return client
  }
}

function ignore(): void {}

async function checkOut(pool: PgPool, withinMs: number): ReturnType<PgPool['connect']> {
  const connecting = pool.connect()
  try {
    return await within(connecting, withinMs)
  } catch (error) {
    // Should it come after all, it belongs to the pool.
    connecting.then(
      (client) => client.release(),
      () => {},
    )
    throw new NotSent(error)
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

/** A name for a prepared statement, the same for the same text. */
function nameOf(text: string): string {
  let name = names.get(text)
  if (name === undefined) names.set(text, (name = `leasehold_${names.size}`))
  return name
}
