import type { Address } from './address.ts'
import { Connection } from './connection.ts'
import { unsent } from './faults.ts'
import type { RedisTransport, RedisServer, Subscription } from './transport.ts'

/** When to dial again after the `attempt`-th failure. */
export function reconnectAfterMs(attempt: number): number {
  return Math.min(1000, 25 * 2 ** Math.min(attempt, 10))
}

/**
 * The driver's link for a URL: one connection for commands and news, of our own (decision 023 says why), and another
 * whenever it is lost. Nothing is queued meanwhile, and nothing is sent twice: the client above decides about both.
 */
export class DirectTransport implements RedisTransport {
  readonly cluster = false
  readonly notificationsInReplies = true
  readonly #address: Address
  #connection: Connection | undefined
  /** The one that is not signed in, or not subscribed, yet. */
  #dialled: Connection | undefined
  #subscribed: (Subscription & { readonly channel: string; readonly withinMs: number }) | undefined
  #dialling: NodeJS.Timeout | undefined
  #closed = false

  constructor(address: Address) {
    this.#address = address
  }

  async open(withinMs: number): Promise<void> {
    this.#connection = await this.#dial((connection) => connection.signIn(withinMs))
  }

  call(command: string, args: readonly string[], _key: string | undefined, withinMs: number): Promise<unknown> {
    const connection = this.#connection
    return connection === undefined ? Promise.reject(unsent()) : connection.call(command, args, withinMs)
  }

  async subscribe(channel: string, subscription: Subscription, withinMs: number): Promise<void> {
    this.#subscribed = { channel, withinMs, ...subscription }
    await this.call('SUBSCRIBE', [channel], undefined, withinMs)
  }

  async servers(): Promise<readonly RedisServer[]> {
    return [{ name: '', call: (command, args, withinMs) => this.call(command, args, undefined, withinMs) }]
  }

  renew(): void {
    if (this.#connection !== undefined) this.#lose(this.#connection)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#dialling)
    this.#dialled?.close()
    this.#connection?.close()
    this.#connection = undefined
  }

  /** A connection that is ready for use. `prepare` must settle in bounded time. */
  async #dial(prepare: (connection: Connection) => Promise<unknown>): Promise<Connection> {
    if (this.#closed) throw unsent()
    const connection: Connection = new Connection(this.#address, {
      message: (channel, message) => {
        if (channel === this.#subscribed?.channel) this.#subscribed.onMessage(message)
      },
      closed: () => {
        if (connection === this.#connection) this.#lose(connection)
      },
    })
    this.#dialled = connection
    try {
      await prepare(connection)
      if (this.#closed || connection.ended) throw unsent()
      return connection
    } catch (error) {
      connection.close()
      throw error
    } finally {
      this.#dialled = undefined
    }
  }

  #lose(connection: Connection): void {
    this.#connection = undefined
    connection.close()
    if (!this.#closed) this.#dialAgain(0)
  }

  #dialAgain(attempt: number): void {
    this.#dialling = setTimeout(() => {
      this.#reconnect().catch(() => {
        if (!this.#closed) this.#dialAgain(attempt + 1)
      })
    }, reconnectAfterMs(attempt))
  }

  async #reconnect(): Promise<void> {
    const subscribed = this.#subscribed
    // Lost before the driver was open, and with it whoever has opened it: nobody would use another one.
    if (subscribed === undefined) return
    const { channel, withinMs, onGap } = subscribed
    this.#connection = await this.#dial(async (connection) => {
      await connection.signIn(withinMs)
      await connection.call('SUBSCRIBE', [channel], withinMs)
    })
    onGap()
  }
}
