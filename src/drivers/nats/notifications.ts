/** Notifications between drivers, by NATS itself: messages that nobody keeps. */
import type { NotifiedOwner } from '../document/observed/clockless-store.ts'
import type { NatsConnectionLike } from './client.ts'

const decoder = new TextDecoder()

export class Notifications {
  readonly #connection: NatsConnectionLike
  readonly #bucket: string
  #stop: (() => void) | undefined

  constructor(connection: NatsConnectionLike, bucket: string) {
    this.#connection = connection
    this.#bucket = bucket
  }

  /** Receives what is sent to a channel. `onGap`: the connection was interrupted, or a server dropped messages. */
  start({
    channel,
    onNotified,
    onGap,
  }: {
    readonly channel: string
    readonly onNotified: (claim: NotifiedOwner) => void
    readonly onGap: () => void
  }): void {
    const subscription = this.#connection.subscribe(this.#subject(channel), {
      callback: (error, { data }) => {
        const claim = error === null ? claimOf(data) : undefined
        if (claim !== undefined) onNotified(claim)
      },
    })
    const statuses = this.#connection.status()
    this.#stop = () => {
      subscription.unsubscribe()
      // An iterator of the client's, which waits for the next status.
      ;(statuses as { stop?: () => void }).stop?.()
    }
    const follow = async (): Promise<void> => {
      for await (const { type } of statuses) if (type === 'reconnect' || type === 'slowConsumer') onGap()
    }
    follow().catch(() => {})
  }

  /** A hint: on a connection that is interrupted or may not publish, it is lost. */
  send(channel: string, claim: NotifiedOwner): void {
    try {
      this.#connection.publish(this.#subject(channel), JSON.stringify(claim))
    } catch {
      // Its owner polls.
    }
  }

  close(): void {
    try {
      this.#stop?.()
    } catch {
      // The connection was closed before.
    }
  }

  #subject(channel: string): string {
    return `leasehold.${this.#bucket}.${channel}`
  }
}

function claimOf(data: Uint8Array): NotifiedOwner | undefined {
  try {
    const { key, id } = JSON.parse(decoder.decode(data)) as Partial<Record<keyof NotifiedOwner, unknown>>
    return typeof key === 'string' && typeof id === 'string' ? { key, id } : undefined
  } catch {
    return undefined
  }
}
