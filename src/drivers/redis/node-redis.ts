import { Reconnector } from '../kit/reconnector.ts'
import { connecting } from './connecting.ts'
import { replyWithin } from './errors.ts'
import type { ClientEventListener, RedisServer, RedisTransport, Subscribed, Subscription } from './transport.ts'
import { reconnectBackoff } from './direct-transport.ts'

/** The part of a single node-redis client (`redis` 4 and later) that the driver uses. */
export interface NodeRedisClient {
  readonly isOpen: boolean
  readonly isReady: boolean
  sendCommand(args: string[]): Promise<unknown>
  connect(): Promise<unknown>
  duplicate(): NodeRedisClient
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  on(event: string, listener: ClientEventListener): unknown
  off(event: string, listener: ClientEventListener): unknown
  destroy?(): void
  disconnect?(): unknown
}

/** The part of a node-redis cluster that the driver uses. */
export interface NodeRedisCluster {
  readonly isOpen?: boolean
  readonly masters: readonly { readonly address: string }[]
  sendCommand(firstKey: string | undefined, isReadonly: boolean | undefined, args: string[]): Promise<unknown>
  connect(): Promise<unknown>
  nodeClient(node: never): NodeRedisClient | Promise<NodeRedisClient>
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  on(event: string, listener: ClientEventListener): unknown
  off(event: string, listener: ClientEventListener): unknown
  destroy?(): void
  disconnect?(): unknown
}

/** The transport over a node-redis client that the user made. @internal */
export class NodeRedisTransport implements RedisTransport {
  readonly cluster = false
  readonly notificationsInReplies = false
  readonly #client: NodeRedisClient
  readonly #reconnector = new Reconnector({
    backoff: reconnectBackoff,
    attempt: () => void this.#subscribeAgain(),
    keepsProcess: true,
  })
  #subscriber: NodeRedisClient | undefined
  #subscribed: Subscribed | undefined
  /** Runs while the subscriber connects again. */
  #timeout: NodeJS.Timeout | undefined
  #closed = false

  constructor(client: NodeRedisClient) {
    this.#client = client
  }

  async open(withinMs: number): Promise<void> {
    if (!this.#client.isOpen) await connecting(this.#client, () => this.#client.connect(), withinMs)
  }

  call(command: string, args: readonly string[], _key: string | undefined, withinMs: number): Promise<unknown> {
    return replyWithin(this.#client.sendCommand([command, ...args]), withinMs)
  }

  async subscribe(channel: string, subscription: Subscription, withinMs: number): Promise<void> {
    this.#subscribed = { channel, withinMs, ...subscription }
    await this.#subscribe(this.#subscribed)
  }

  async #subscribe({ channel, withinMs, onMessage, onGap }: Subscribed): Promise<void> {
    const subscriber = this.#client.duplicate()
    this.#subscriber = subscriber
    let interruptions = 0
    subscriber.on('error', () => {
      clearTimeout(this.#timeout)
      interruptions += 1
    })
    // A client that reconnects subscribes before it is ready. If that reply is lost, it would wait for it forever.
    subscriber.on('connect', () => {
      clearTimeout(this.#timeout)
      if (subscriber !== this.#subscriber || interruptions === 0) return
      this.#timeout = setTimeout(() => void this.#subscribeAgain(), withinMs)
    })
    subscriber.on('ready', () => {
      clearTimeout(this.#timeout)
      if (interruptions > 0) onGap()
    })
    await connecting(subscriber, () => subscriber.connect(), withinMs)
    await replyWithin(subscriber.subscribe(channel, onMessage), withinMs)
  }

  /** Subscribes with another client, as the one at hand no longer answers. */
  async #subscribeAgain(): Promise<void> {
    const subscribed = this.#subscribed
    if (this.#closed || subscribed === undefined) return
    this.#endSubscriber()
    try {
      await this.#subscribe(subscribed)
    } catch {
      // Otherwise this client would go on connecting by itself.
      this.#endSubscriber()
      this.#reconnector.failed()
      return
    }
    this.#reconnector.succeeded()
    subscribed.onGap()
  }

  async servers(): Promise<readonly RedisServer[]> {
    return [{ name: '', call: (command, args, withinMs) => this.call(command, args, undefined, withinMs) }]
  }

  renew(): void {}

  async close(): Promise<void> {
    this.#closed = true
    this.#reconnector.close()
    this.#endSubscriber()
  }

  #endSubscriber(): void {
    clearTimeout(this.#timeout)
    if (this.#subscriber !== undefined) end(this.#subscriber)
  }
}

/** The transport over a node-redis cluster. `owned`: the driver made the client, and closes it. @internal */
export class NodeRedisClusterTransport implements RedisTransport {
  readonly cluster = true
  readonly notificationsInReplies = false
  readonly #client: NodeRedisCluster
  readonly #owned: boolean
  #channel: string | undefined

  constructor(client: NodeRedisCluster, owned: boolean) {
    this.#client = client
    this.#owned = owned
  }

  async open(withinMs: number): Promise<void> {
    if (this.#client.isOpen !== false) return
    // The client tries one node after the other, and tells why each failed by an event.
    let lastError: unknown
    const onError = (error: unknown): void => void (lastError = error)
    this.#client.on('error', onError)
    try {
      await replyWithin(this.#client.connect(), withinMs)
    } catch (error) {
      throw lastError ?? error
    } finally {
      this.#client.off('error', onError)
    }
  }

  call(command: string, args: readonly string[], key: string | undefined, withinMs: number): Promise<unknown> {
    return replyWithin(this.#client.sendCommand(key, false, [command, ...args]), withinMs)
  }

  async subscribe(channel: string, { onMessage }: Subscription, withinMs: number): Promise<void> {
    this.#channel = channel
    await replyWithin(this.#client.subscribe(channel, onMessage), withinMs)
  }

  async servers(): Promise<readonly RedisServer[]> {
    // Version 4 lists a node once for each of its ranges of slots.
    const nodes = new Map(this.#client.masters.map((node) => [node.address, node]))
    return [...nodes.values()].map((node) => ({
      name: node.address,
      call: (command, args, withinMs) => {
        const sent = Promise.resolve(this.#client.nodeClient(node as never)).then((client) =>
          client.sendCommand([command, ...args]),
        )
        return replyWithin(sent, withinMs)
      },
    }))
  }

  renew(): void {}

  async close(): Promise<void> {
    if (this.#owned) return end(this.#client)
    if (this.#channel === undefined) return
    try {
      await this.#client.unsubscribe(this.#channel)
    } catch {
      // The user has closed the client already, and its subscriptions with it.
    }
  }
}

/** Ends a connection at once: `destroy` since version 5, `disconnect` before. */
function end(client: Pick<NodeRedisClient, 'destroy' | 'disconnect'> & { readonly isOpen?: boolean }): void {
  if (client.isOpen === false) return
  if (client.destroy === undefined) void client.disconnect?.()
  else client.destroy()
}
