import { LeaseholdError } from '../../core/errors.ts'
import { connecting } from './connecting.ts'
import { withTimeout } from './faults.ts'
import type { RedisTransport, Listener, RedisServer, Subscription } from './transport.ts'
import { reconnectAfterMs } from './direct-transport.ts'

/** What is used of an ioredis client, a single one or a Cluster, of version 5 or 6. */
export interface IoredisClient {
  readonly status: string
  readonly options: { readonly keyPrefix?: string | undefined; readonly host?: string | undefined }
  readonly isCluster?: boolean
  call(command: string, args: string[]): Promise<unknown>
  connect(): Promise<unknown>
  disconnect(reconnect?: boolean): void
  duplicate(options?: object): IoredisClient
  subscribe(channel: string): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  on(event: string, listener: Listener): unknown
  off(event: string, listener: Listener): unknown
  nodes?(role: 'master'): IoredisClient[]
}

/** The driver's link over an ioredis client. `owned`: the driver made the client, for a Cluster, and closes it. @internal */
export class IoredisTransport implements RedisTransport {
  readonly cluster: boolean
  readonly notificationsInReplies = false
  readonly #client: IoredisClient
  readonly #owned: boolean
  #subscriber: IoredisClient | undefined
  #channel: string | undefined
  #unlisten: (() => void) | undefined

  constructor(client: IoredisClient, owned: boolean) {
    if ((client.options?.keyPrefix ?? '') !== '') {
      throw new LeaseholdError('INVALID', 'This ioredis client has a keyPrefix. Give the driver a `prefix` instead.')
    }
    this.#client = client
    this.#owned = owned
    this.cluster = client.isCluster === true
  }

  async open(withinMs: number): Promise<void> {
    await connected(this.#client, withinMs)
  }

  call(command: string, args: readonly string[], _key: string | undefined, withinMs: number): Promise<unknown> {
    return withTimeout(this.#client.call(command, args as string[]), withinMs)
  }

  async subscribe(channel: string, { onMessage, onGap }: Subscription, withinMs: number): Promise<void> {
    // A Cluster keeps a connection for subscriptions itself.
    const subscriber = this.cluster ? this.#client : this.#client.duplicate(subscriberOptions)
    const onChannelMessage = (from: string, message: string): void => {
      if (from === channel) onMessage(message)
    }
    let interruptions = 0
    let watch: NodeJS.Timeout | undefined
    const subscribed = (): void => clearTimeout(watch)
    // Until it is subscribed: ioredis itself waits without end for a reply that was lost. A Cluster's connection is not
    // ours to close.
    const onConnect = (): void => {
      clearTimeout(watch)
      if (!this.cluster) watch = setTimeout(() => subscriber.disconnect(true), withinMs)
    }
    const onReady = (): void => {
      if (interruptions === 0) return
      // By hand: what ioredis itself sends again it does not look after when that fails too.
      const again = this.cluster ? Promise.resolve() : subscriber.subscribe(channel).then(subscribed)
      void again.then(onGap, ignore)
    }
    const onClose = (): void => {
      clearTimeout(watch)
      interruptions += 1
    }
    const listeners = { message: onChannelMessage, connect: onConnect, ready: onReady, close: onClose, error: ignore }
    for (const [event, listener] of Object.entries(listeners)) subscriber.on(event, listener)
    this.#unlisten = () => {
      clearTimeout(watch)
      for (const [event, listener] of Object.entries(listeners)) {
        // A connection that ends may still complain.
        if (listener !== ignore) subscriber.off(event, listener)
      }
    }
    this.#subscriber = subscriber
    this.#channel = channel
    if (!this.cluster) await connected(subscriber, withinMs)
    await withTimeout(subscriber.subscribe(channel), withinMs)
    subscribed()
  }

  async servers(): Promise<readonly RedisServer[]> {
    if (this.#client.nodes === undefined || !this.cluster) {
      return [{ name: '', call: (command, args, withinMs) => this.call(command, args, undefined, withinMs) }]
    }
    return this.#client.nodes('master').map((node) => ({
      name: nameOf(node),
      call: (command, args, withinMs) => withTimeout(node.call(command, args as string[]), withinMs),
    }))
  }

  /** The connection is its owner's; a Cluster's other nodes may be well, and `dial.ts` has its client look after each. */
  renew(): void {}

  async close(): Promise<void> {
    this.#unlisten?.()
    const subscriber = this.#subscriber
    if (this.#owned) this.#client.disconnect()
    if (subscriber === undefined) return
    if (!this.cluster) subscriber.disconnect()
    else if (!this.#owned && this.#channel !== undefined) await subscriber.unsubscribe(this.#channel).catch(ignore)
  }
}

/** A subscriber waits for its connection however long that takes: what it misses is asked for afterwards. */
const subscriberOptions = {
  lazyConnect: true,
  autoResubscribe: false,
  enableOfflineQueue: true,
  maxRetriesPerRequest: null,
  retryStrategy: reconnectAfterMs,
  // A connection that is silent does not even answer its end.
  disconnectTimeout: 10,
}

/** Resolves once the client can be used; rejects with what kept it from that. */
async function connected(client: IoredisClient, withinMs: number): Promise<void> {
  if (client.status === 'ready') return
  const starts = client.status === 'wait' || client.status === 'end'
  await connecting(client, () => (starts ? client.connect() : undefined), withinMs)
}

function nameOf(node: IoredisClient): string {
  const { host, port } = node.options as { host?: string; port?: number }
  return `${host}:${port}`
}

function ignore(): void {}
