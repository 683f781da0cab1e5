import { LeaseholdError } from '../../core/errors.ts'
import { connecting } from './connecting.ts'
import { replyWithin } from './errors.ts'
import type { ClientEventListener, RedisServer, RedisTransport, Subscription } from './transport.ts'
import { reconnectAfterMs } from './direct-transport.ts'

/** The part of an ioredis client, a single one or a Cluster, of version 5 or 6, that the driver uses. */
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
  on(event: string, listener: ClientEventListener): unknown
  off(event: string, listener: ClientEventListener): unknown
  nodes?(role: 'master'): IoredisClient[]
}

/** The transport over an ioredis client. `owned`: the driver made the client, for a Cluster, and closes it. @internal */
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
    return replyWithin(this.#client.call(command, args as string[]), withinMs)
  }

  async subscribe(channel: string, { onMessage, onGap }: Subscription, withinMs: number): Promise<void> {
    // A Cluster itself keeps a connection for subscriptions.
    const subscriber = this.cluster ? this.#client : this.#client.duplicate(subscriberOptions)
    const onChannelMessage = (from: string, message: string): void => {
      if (from === channel) onMessage(message)
    }
    let interruptions = 0
    let timeout: NodeJS.Timeout | undefined
    const onSubscribed = (): void => clearTimeout(timeout)
    // If the reply to SUBSCRIBE is lost, ioredis would wait for it forever. A Cluster's connection is not ours to close.
    const onConnect = (): void => {
      clearTimeout(timeout)
      if (!this.cluster) timeout = setTimeout(() => subscriber.disconnect(true), withinMs)
    }
    const onReady = (): void => {
      if (interruptions === 0) return
      // Not by `autoResubscribe`, which does not notice when subscribing fails again.
      const subscribing = this.cluster ? Promise.resolve() : subscriber.subscribe(channel).then(onSubscribed)
      void subscribing.then(onGap, ignore)
    }
    const onClose = (): void => {
      clearTimeout(timeout)
      interruptions += 1
    }
    const listeners = { message: onChannelMessage, connect: onConnect, ready: onReady, close: onClose, error: ignore }
    for (const [event, listener] of Object.entries(listeners)) subscriber.on(event, listener)
    this.#unlisten = () => {
      clearTimeout(timeout)
      for (const [event, listener] of Object.entries(listeners)) {
        // A connection that ends may still emit errors, which would end the process without a listener.
        if (listener !== ignore) subscriber.off(event, listener)
      }
    }
    this.#subscriber = subscriber
    this.#channel = channel
    if (!this.cluster) await connected(subscriber, withinMs)
    await replyWithin(subscriber.subscribe(channel), withinMs)
    onSubscribed()
  }

  async servers(): Promise<readonly RedisServer[]> {
    if (this.#client.nodes === undefined || !this.cluster) {
      return [{ name: '', call: (command, args, withinMs) => this.call(command, args, undefined, withinMs) }]
    }
    return this.#client.nodes('master').map((node) => ({
      name: nameOf(node),
      call: (command, args, withinMs) => replyWithin(node.call(command, args as string[]), withinMs),
    }))
  }

  /** A single connection is the user's. Of a Cluster, `dial.ts` has the client look after each node by itself. */
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

/** A subscriber reconnects however long that takes: the messages it lost are made up for by a gap. */
const subscriberOptions = {
  lazyConnect: true,
  autoResubscribe: false,
  enableOfflineQueue: true,
  maxRetriesPerRequest: null,
  retryStrategy: reconnectAfterMs,
  // A server that is silent does not confirm the end of a connection either.
  disconnectTimeout: 10,
}

/** Resolves once the client is ready; rejects with the error that prevented it. */
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
