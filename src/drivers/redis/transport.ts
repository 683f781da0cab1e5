/** What the driver needs of a client. One file a library turns its client into this; `own-transport.ts` needs none. */

/** Listens to a client's events, as far as they are used: with a channel and a message, or with nothing of interest. */
export type Listener = (channel: string, message: string) => void

/** One server whose keys can be walked. @internal */
export interface RedisServer {
  /** Tells servers apart, for as long as they stay. */
  readonly name: string
  /** A command to this very server. Rejects as overdue if that takes longer than `withinMs`. */
  call(command: string, args: readonly string[], withinMs: number): Promise<unknown>
}

/** @internal */
export interface Subscription {
  /** A message came. */
  readonly onMessage: (message: string) => void
  /** The subscription was interrupted: messages may have been missed. */
  readonly onGap: () => void
}

/** @internal */
export interface RedisTransport {
  /** A cluster: a call must keep to one hash slot. */
  readonly cluster: boolean
  /** Whether replies and news come by one connection: then a lost reply counts as missed news, and may carry some. */
  readonly notificationsInReplies: boolean
  /** Connects, unless connected. Rejects if the server refuses, or takes longer than `withinMs`. */
  open(withinMs: number): Promise<void>
  /** Sends one command. On a cluster `key` says where. Rejects as overdue if that takes longer than `withinMs`. */
  call(command: string, args: readonly string[], key: string | undefined, withinMs: number): Promise<unknown>
  /**
   * Subscribes, and again whenever the connection for that is lost. A connection over which that takes longer than
   * `withinMs` is given up, and another one dialled.
   */
  subscribe(channel: string, subscription: Subscription, withinMs: number): Promise<void>
  /** Every server that holds keys. */
  servers(): Promise<readonly RedisServer[]>
  /** The server is not what it was: dials again, if the connection is the driver's own. */
  renew(): void
  /** Lets go of what this link has opened, and of nothing else. */
  close(): Promise<void>
}
