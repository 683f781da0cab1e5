/** What the driver needs of a connection to Redis: `direct-transport.ts` is our own, one file a client library adapts its clients. */

/** A listener of a client's events: of messages, with channel and message, or of events whose arguments are not used. */
export type ClientEventListener = (channel: string, message: string) => void

/** One server whose keys can be listed. @internal */
export interface RedisServer {
  /** Unlike that of any other server of the cluster, and the same for as long as the server stays. */
  readonly name: string
  /** Sends a command to this very server. Rejects with `CallTimedOut` after `withinMs`. */
  call(command: string, args: readonly string[], withinMs: number): Promise<unknown>
}

/** What a subscriber is called with. @internal */
export interface Subscription {
  readonly onMessage: (message: string) => void
  /** The subscription was interrupted: messages may have been lost. */
  readonly onGap: () => void
}

/** A subscription that lasts, to make again over another connection. @internal */
export interface Subscribed extends Subscription {
  readonly channel: string
  readonly withinMs: number
}

/** Commands and a subscription, over whichever client. @internal */
export interface RedisTransport {
  /** A cluster: a call must keep to one hash slot. */
  readonly cluster: boolean
  /** Whether replies and notifications share a connection. Then replies may carry notifications, as losing either is a gap. */
  readonly notificationsInReplies: boolean
  /** Connects, unless connected. Rejects if the server refuses, or takes longer than `withinMs`. */
  open(withinMs: number): Promise<void>
  /** Sends one command; on a cluster, to the node of `key`. Rejects with `CallTimedOut` after `withinMs`. */
  call(command: string, args: readonly string[], key: string | undefined, withinMs: number): Promise<unknown>
  /** Subscribes, and again whenever the connection is lost. If subscribing takes longer than `withinMs`, over another connection. */
  subscribe(channel: string, subscription: Subscription, withinMs: number): Promise<void>
  /** Every server that holds keys. */
  servers(): Promise<readonly RedisServer[]>
  /** The server has become a replica: connects anew, if the connection is the driver's own. */
  renew(): void
  /** Closes what this transport has opened, and nothing else. */
  close(): Promise<void>
}
