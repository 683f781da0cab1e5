import { pauseMs, type Backoff } from '../../core/time/backoff.ts'
import { Reconnector } from '../kit/reconnector.ts'
import type { RedisAddress } from './address.ts'
import { RedisConnection } from './connection.ts'
import { notSentError } from './errors.ts'
import type { RedisServer, RedisTransport, Subscribed, Subscription } from './transport.ts'

/** Pauses between attempts to connect again. */
export const reconnectBackoff: Backoff = { attempts: Infinity, minMs: 25, maxMs: 1000, factor: 2, jitter: 0 }

/** The pause of {@link reconnectBackoff} after the `attempt`-th failure, for client libraries, which count them. */
export function reconnectAfterMs(attempt: number): number {
  return pauseMs(reconnectBackoff, attempt + 1, 0)
}

/**
 * The transport for a URL: one connection of our own for commands and notifications (decision 023 says why), and a new
 * one whenever it is lost. Meanwhile nothing is queued, and nothing is sent twice: the client above decides about both.
 */
export class DirectTransport implements RedisTransport {
  readonly cluster = false
  readonly notificationsInReplies = true
  readonly #address: RedisAddress
  readonly #reconnector = new Reconnector({
    backoff: reconnectBackoff,
    attempt: () => void this.#reconnect().catch(() => this.#reconnector.failed()),
    keepsProcess: true,
  })
  #connection: RedisConnection | undefined
  /** The connection that is not signed in, or not subscribed, yet. */
  #dialled: RedisConnection | undefined
  #subscribed: Subscribed | undefined
  #closed = false

  constructor(address: RedisAddress) {
    this.#address = address
  }

  async open(withinMs: number): Promise<void> {
    this.#connection = await this.#dial((connection) => connection.signIn(withinMs))
  }

  call(command: string, args: readonly string[], _key: string | undefined, withinMs: number): Promise<unknown> {
    const connection = this.#connection
    return connection === undefined ? Promise.reject(notSentError()) : connection.call(command, args, withinMs)
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
    this.#reconnector.close()
    this.#dialled?.close()
    this.#connection?.close()
    this.#connection = undefined
  }

  /** A connection that is ready for use. `prepare` must settle in bounded time. */
  async #dial(prepare: (connection: RedisConnection) => Promise<unknown>): Promise<RedisConnection> {
    if (this.#closed) throw notSentError()
    const connection: RedisConnection = new RedisConnection(this.#address, {
      onMessage: (channel, message) => {
        if (channel === this.#subscribed?.channel) this.#subscribed.onMessage(message)
      },
      onClose: () => {
        if (connection === this.#connection) this.#lose(connection)
      },
    })
    this.#dialled = connection
    try {
      await prepare(connection)
      if (this.#closed || connection.ended) throw notSentError()
      return connection
    } catch (error) {
      connection.close()
      throw error
    } finally {
      this.#dialled = undefined
    }
  }

  #lose(connection: RedisConnection): void {
    this.#connection = undefined
    connection.close()
    this.#reconnector.failed()
  }

  async #reconnect(): Promise<void> {
    const subscribed = this.#subscribed
    // The first connection was lost before it was subscribed: opening the driver fails, and nobody would use another.
    if (subscribed === undefined) return
    const { channel, withinMs, onGap } = subscribed
    this.#connection = await this.#dial(async (connection) => {
      await connection.signIn(withinMs)
      await connection.call('SUBSCRIBE', [channel], withinMs)
    })
    this.#reconnector.succeeded()
    onGap()
  }
}
