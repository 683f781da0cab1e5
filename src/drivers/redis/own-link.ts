import type { Address } from './address.ts'
import { Connection } from './connection.ts'
import { unsent } from './faults.ts'
import type { Link, Shelf, Subscription } from './link.ts'

/** When to dial again after the `attempt`-th failure. */
export function reconnectAfterMs(attempt: number): number {
  return Math.min(1000, 25 * 2 ** Math.min(attempt, 10))
}

/**
 * The driver's link for a URL: one connection for commands and news, of our own (decision 023 says why), and another
 * whenever it is lost. Nothing is queued meanwhile, and nothing is sent twice: the client above decides about both.
 */
export class OwnLink implements Link {
  readonly cluster = false
  readonly newsInReplies = true
  interruptions = 0
  readonly #address: Address
  #connection: Connection | undefined
  #subscribed: (Subscription & { readonly channel: string }) | undefined
  #dialling: NodeJS.Timeout | undefined
  #closed = false

  constructor(address: Address) {
    this.#address = address
  }

  async open(): Promise<void> {
    this.#connection = await this.#dial()
  }

  call(command: string, args: readonly string[], _key?: string, withinMs?: number): Promise<unknown> {
    const connection = this.#connection
    return connection === undefined ? Promise.reject(unsent()) : connection.call(command, args, withinMs)
  }

  async subscribe(channel: string, subscription: Subscription): Promise<void> {
    this.#subscribed = { channel, ...subscription }
    await this.call('SUBSCRIBE', [channel])
  }

  async shelves(): Promise<readonly Shelf[]> {
    return [{ name: '', call: (command, args) => this.call(command, args) }]
  }

  renew(): void {
    if (this.#connection !== undefined) this.#lose(this.#connection)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#dialling)
    this.#connection?.close()
    this.#connection = undefined
  }

  async #dial(): Promise<Connection> {
    let opened: Connection | undefined
    const connection = await Connection.open(this.#address, {
      message: (channel, message) => {
        if (channel === this.#subscribed?.channel) this.#subscribed.heard(message)
      },
      closed: () => {
        if (opened !== undefined && opened === this.#connection) this.#lose(opened)
      },
    })
    opened = connection
    if (!this.#closed) return connection
    connection.close()
    throw unsent()
  }

  #lose(connection: Connection): void {
    this.#connection = undefined
    this.interruptions += 1
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
    const connection = await this.#dial()
    try {
      if (this.#subscribed !== undefined) await connection.call('SUBSCRIBE', [this.#subscribed.channel])
    } catch (error) {
      connection.close()
      throw error
    }
    if (this.#closed) return connection.close()
    this.#connection = connection
    this.#subscribed?.missed()
  }
}
