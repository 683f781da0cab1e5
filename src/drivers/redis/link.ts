/** What the driver needs of a client library. One file a library turns its client into this. */

/** Listens to a client's events, as far as they are used: with a channel and a message, or with nothing of interest. */
export type Listener = (channel: string, message: string) => void

/** One server whose keys can be walked. */
export interface Shelf {
  /** Tells servers apart, for as long as they stay. */
  readonly name: string
  /** A command to this very server. */
  call(command: string, args: readonly string[]): Promise<unknown>
}

export interface Subscription {
  /** A message came. */
  readonly heard: (message: string) => void
  /** The subscription was interrupted: messages may have been missed. */
  readonly missed: () => void
}

export interface Link {
  /** How often the connection has been lost; undefined where there are several. */
  readonly interruptions: number | undefined
  /** A cluster: a call must keep to one hash slot. */
  readonly cluster: boolean
  /** Connects, unless connected. Rejects if the server refuses. */
  open(): Promise<void>
  /** Sends one command. On a cluster `key` says where. */
  call(command: string, args: readonly string[], key: string | undefined): Promise<unknown>
  /** Subscribes on a connection of its own, and again whenever that is lost. */
  subscribe(channel: string, subscription: Subscription): Promise<void>
  /** Every server that holds keys. */
  shelves(): Promise<readonly Shelf[]>
  /** A reply is overdue: dials again, if the connection is the driver's own. */
  renew(): void
  /** Lets go of what this link has opened, and of nothing else. */
  close(): Promise<void>
}
