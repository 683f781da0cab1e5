import { connecting } from './connecting.ts'
import { withTimeout } from './faults.ts'
import type { RedisTransport, Listener, RedisServer, Subscription } from './transport.ts'
import { reconnectAfterMs } from './direct-transport.ts'

/** What is used of a node-redis client (`redis` 4 and later), a single one. */
export interface NodeRedisClient {
  readonly isOpen: boolean
  readonly isReady: boolean
  sendCommand(args: string[]): Promise<unknown>
  connect(): Promise<unknown>
  duplicate(): NodeRedisClient
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  on(event: string, listener: Listener): unknown
  off(event: string, listener: Listener): unknown
  destroy?(): void
  disconnect?(): unknown
}

/** What is used of a node-redis cluster. */
export interface NodeRedisCluster {
  readonly isOpen?: boolean
  readonly masters: readonly { readonly address: string }[]
  sendCommand(firstKey: string | undefined, isReadonly: boolean | undefined, args: string[]): Promise<unknown>
  connect(): Promise<unknown>
  nodeClient(node: never): NodeRedisClient | Promise<NodeRedisClient>
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  on(event: string, listener: Listener): unknown
  off(event: string, listener: Listener): unknown
  destroy?(): void
  disconnect?(): unknown
}

/** The driver's link over a node-redis client that somebody else made. @internal */
export class NodeRedisTransport implements RedisTransport {
  readonly cluster = false
  readonly notificationsInReplies = false
  readonly #client: NodeRedisClient
  #subscriber: NodeRedisClient | undefined
  #watch: NodeJS.Timeout | undefined
  #closed = false

  constructor(client: NodeRedisClient) {
    this.#client = client
  }

  async open(withinMs: number): Promise<void> {
    if (!this.#client.isOpen) await connecting(this.#client, () => this.#client.connect(), withinMs)
  }

  call(command: string, args: readonly string[], _key: string | undefined, withinMs: number): Promise<unknown> {
    return withTimeout(this.#client.sendCommand([command, ...args]), withinMs)
  }

  async subscribe(channel: string, subscription: Subscription, withinMs: number): Promise<void> {
    const { onMessage, onGap } = subscription
    const subscriber = this.#client.duplicate()
    this.#subscriber = subscriber
    let interruptions = 0
    subscriber.on('error', () => {
      clearTimeout(this.#watch)
      interruptions += 1
    })
    // When it connects again it subscribes before it is ready, and waits without end for a reply that was lost.
    subscriber.on('connect', () => {
      clearTimeout(this.#watch)
      if (subscriber !== this.#subscriber || interruptions === 0) return
      this.#watch = setTimeout(() => this.#subscribeAgain(channel, subscription, withinMs, 0), withinMs)
    })
    subscriber.on('ready', () => {
      clearTimeout(this.#watch)
      if (interruptions > 0) onGap()
    })
    await connecting(subscriber, () => subscriber.connect(), withinMs)
    await withTimeout(subscriber.subscribe(channel, onMessage), withinMs)
  }

  /** With another client: of the one there is nothing is to be had any more. */
  #subscribeAgain(channel: string, subscription: Subscription, withinMs: number, attempt: number): void {
    if (this.#closed) return
    if (this.#subscriber !== undefined) end(this.#subscriber)
    this.subscribe(channel, subscription, withinMs).then(subscription.onGap, () => {
      const again = (): void => this.#subscribeAgain(channel, subscription, withinMs, attempt + 1)
      clearTimeout(this.#watch)
      if (!this.#closed) this.#watch = setTimeout(again, reconnectAfterMs(attempt))
    })
  }

  async servers(): Promise<readonly RedisServer[]> {
    return [{ name: '', call: (command, args, withinMs) => this.call(command, args, undefined, withinMs) }]
  }

  renew(): void {}

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#watch)
    if (this.#subscriber !== undefined) end(this.#subscriber)
  }
}

/** The driver's link over a node-redis cluster. `owned`: the driver made it, and closes it. @internal */
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
    // One node after the other is tried, and what each said comes as an event.
    let told: unknown
    const onError = (error: unknown): void => void (told = error)
    this.#client.on('error', onError)
    try {
      await withTimeout(this.#client.connect(), withinMs)
    } catch (error) {
      throw told ?? error
    } finally {
      this.#client.off('error', onError)
    }
  }

  call(command: string, args: readonly string[], key: string | undefined, withinMs: number): Promise<unknown> {
    return withTimeout(this.#client.sendCommand(key, false, [command, ...args]), withinMs)
  }

  async subscribe(channel: string, { onMessage }: Subscription, withinMs: number): Promise<void> {
    this.#channel = channel
    await withTimeout(this.#client.subscribe(channel, onMessage), withinMs)
  }

  async servers(): Promise<readonly RedisServer[]> {
    // Version 4 names a node once for each range of slots that it has.
    const nodes = new Map(this.#client.masters.map((node) => [node.address, node]))
    return [...nodes.values()].map((node) => ({
      name: node.address,
      call: (command, args, withinMs) => {
        const sent = Promise.resolve(this.#client.nodeClient(node as never)).then((client) =>
          client.sendCommand([command, ...args]),
        )
        return withTimeout(sent, withinMs)
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
      // The cluster's own client is closed already, and its subscriptions with it.
    }
  }
}

/** Ends a connection at once. Before version 5 that was called otherwise. */
function end(client: Pick<NodeRedisClient, 'destroy' | 'disconnect'> & { readonly isOpen?: boolean }): void {
  if (client.isOpen === false) return
  if (client.destroy === undefined) void client.disconnect?.()
  else client.destroy()
}
