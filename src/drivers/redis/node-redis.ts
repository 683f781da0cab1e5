import { connecting } from './connecting.ts'
import { unlessOverdue } from './faults.ts'
import type { Link, Listener, Shelf, Subscription } from './link.ts'

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

/** The driver's link over a node-redis client that somebody else made. */
export class NodeRedisLink implements Link {
  readonly cluster = false
  readonly newsInReplies = false
  readonly interruptions = undefined
  readonly #client: NodeRedisClient
  #subscriber: NodeRedisClient | undefined

  constructor(client: NodeRedisClient) {
    this.#client = client
  }

  async open(): Promise<void> {
    if (!this.#client.isOpen) await connecting(this.#client, () => this.#client.connect())
  }

  call(command: string, args: readonly string[], _key?: string, withinMs?: number): Promise<unknown> {
    return unlessOverdue(this.#client.sendCommand([command, ...args]), withinMs)
  }

  async subscribe(channel: string, { heard, missed }: Subscription): Promise<void> {
    const subscriber = this.#client.duplicate()
    this.#subscriber = subscriber
    let interruptions = 0
    subscriber.on('error', () => void (interruptions += 1))
    subscriber.on('ready', () => {
      if (interruptions > 0) missed()
    })
    await connecting(subscriber, () => subscriber.connect())
    await subscriber.subscribe(channel, heard)
  }

  async shelves(): Promise<readonly Shelf[]> {
    return [{ name: '', call: (command, args) => this.call(command, args) }]
  }

  renew(): void {}

  async close(): Promise<void> {
    if (this.#subscriber !== undefined) end(this.#subscriber)
  }
}

/** The driver's link over a node-redis cluster. `owned`: the driver made it, and closes it. */
export class NodeRedisClusterLink implements Link {
  readonly cluster = true
  readonly newsInReplies = false
  readonly interruptions = undefined
  readonly #client: NodeRedisCluster
  readonly #owned: boolean
  #channel: string | undefined

  constructor(client: NodeRedisCluster, owned: boolean) {
    this.#client = client
    this.#owned = owned
  }

  async open(): Promise<void> {
    if (this.#client.isOpen !== false) return
    // One node after the other is tried, and what each said comes as an event.
    let told: unknown
    const onError = (error: unknown): void => void (told = error)
    this.#client.on('error', onError)
    try {
      await this.#client.connect()
    } catch (error) {
      throw told ?? error
    } finally {
      this.#client.off('error', onError)
    }
  }

  call(command: string, args: readonly string[], key?: string, withinMs?: number): Promise<unknown> {
    return unlessOverdue(this.#client.sendCommand(key, false, [command, ...args]), withinMs)
  }

  async subscribe(channel: string, { heard }: Subscription): Promise<void> {
    this.#channel = channel
    await this.#client.subscribe(channel, heard)
  }

  async shelves(): Promise<readonly Shelf[]> {
    // Version 4 names a node once for each range of slots that it has.
    const nodes = new Map(this.#client.masters.map((node) => [node.address, node]))
    return [...nodes.values()].map((node) => ({
      name: node.address,
      call: async (command, args) => {
        const client = await this.#client.nodeClient(node as never)
        return client.sendCommand([command, ...args])
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
