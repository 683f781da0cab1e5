import type { Claim, ClaimStatus } from '../../core/contract/driver.ts'
import { claimName } from '../../core/contract/requests.ts'
import type { Backoff } from '../../core/time/backoff.ts'
import { Reconnector } from '../kit/reconnector.ts'
import type { Connections, ListeningConnection } from './connections.ts'

/** What a {@link ChannelListener} needs. */
export interface ChannelListenerOptions {
  readonly connections: Connections
  readonly channel: string
  /** Receives every payload, except our own probes. */
  readonly onPayload: (payload: string) => void
  /** Listening has ceased to work, or works again: notifications may have been lost. */
  readonly onGap: () => void
}

/** How long a probe may take before the listener counts as deaf. */
const probeMs = 1000
/** How often to probe, while a claim waits for notifications. */
const probeEveryMs = 10_000
const reconnecting: Backoff = { attempts: Infinity, minMs: 250, maxMs: 30_000, factor: 2, jitter: 0 }

const probe = 'probe'

/**
 * Listens to one channel, and knows whether that works: a notification of its own must come back. Behind a pooler in transaction
 * mode none ever does; a connection may die without a word. The listener is then deaf, and connects again with growing pauses.
 */
export class ChannelListener {
  readonly #options: ChannelListenerOptions
  readonly #reconnector = new Reconnector({ backoff: reconnecting, attempt: () => void this.#startAgain() })
  #connection: ListeningConnection | undefined
  #hears = false
  #closed = false
  #onProbe: (() => void) | undefined
  #probedAt = 0
  /** Counts connections: one that was given up may still hear for a while, and its successor hears the same. */
  #attempt = 0

  constructor(options: ChannelListenerOptions) {
    this.#options = options
  }

  /** Whether notifications arrive, as far as is known. */
  get hears(): boolean {
    return this.#hears
  }

  /** Begins to listen. Resolves, whether that works or not, within a few seconds. */
  async start(): Promise<void> {
    const { connections, channel } = this.#options
    const attempt = (this.#attempt += 1)
    // Undefined until it listens: if the connection ends before that, the probe finds out.
    let connection: ListeningConnection | undefined
    try {
      connection = await connections.listen(
        channel,
        (payload) => attempt === this.#attempt && this.#onPayload(payload),
        () => this.#lost(connection),
      )
      this.#connection = connection
      if (this.#closed) return await this.#disconnect()
      this.#hears = await this.#probe()
    } catch {
      this.#hears = false
    }
    if (this.#closed) return
    if (this.#hears) this.#reconnector.succeeded()
    else await this.#giveUpForNow()
  }

  /** Probes now and then whether notifications still arrive. Cheap enough to be called with every send. */
  check(): void {
    if (!this.#hears || performance.now() - this.#probedAt < probeEveryMs) return
    this.#probedAt = performance.now()
    void this.#checkNow()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#hears = false
    this.#onProbe?.()
    this.#reconnector.close()
    await this.#disconnect()
  }

  async #checkNow(): Promise<void> {
    const hears = await this.#probe()
    if (!hears && !this.#closed && this.#hears) await this.#giveUpForNow()
  }

  /** Sends a notification to ourselves and waits for it. */
  async #probe(): Promise<boolean> {
    const { connections, channel } = this.#options
    let timer: NodeJS.Timeout | undefined
    const arrived = new Promise<boolean>((resolve) => {
      this.#onProbe = () => resolve(true)
      timer = setTimeout(() => resolve(false), probeMs).unref()
    })
    try {
      await connections.query('select pg_notify($1, $2)', [channel, probe], probeMs)
      return await arrived
    } catch {
      return false
    } finally {
      clearTimeout(timer)
      this.#onProbe = undefined
      this.#probedAt = performance.now()
    }
  }

  #onPayload(payload: string): void {
    if (payload === probe) this.#onProbe?.()
    else this.#options.onPayload(payload)
  }

  #lost(connection: ListeningConnection | undefined): void {
    if (this.#closed || connection === undefined || this.#connection !== connection) return
    this.#connection = undefined
    void this.#giveUpForNow()
  }

  async #giveUpForNow(): Promise<void> {
    const heard = this.#hears
    this.#hears = false
    this.#attempt += 1
    this.#reconnector.failed()
    if (heard) this.#options.onGap()
    await this.#disconnect()
  }

  async #startAgain(): Promise<void> {
    await this.start()
    if (this.#hears) this.#options.onGap()
  }

  async #disconnect(): Promise<void> {
    const connection = this.#connection
    this.#connection = undefined
    try {
      await connection?.close()
    } catch {
      // The connection was gone already.
    }
  }
}

/** More than can be under way at once. */
const claimsMax = 1000

/**
 * The order of the notifications of each claim. They come by two ways, with answers and over the channel, so one may overtake
 * another; as a status only moves on, its state tells which is the later.
 */
export class NotificationOrder {
  readonly #lastRanks = new Map<string, number>()

  /** Notes a notification. False: a later one of that claim has been noted. */
  isInOrder(claim: Pick<Claim, 'key' | 'id'>, status: ClaimStatus): boolean {
    const name = claimName(claim)
    const rank = rankOf(status)
    if (rank < (this.#lastRanks.get(name) ?? 0)) return false
    this.#lastRanks.delete(name)
    this.#lastRanks.set(name, rank)
    const [oldest] = this.#lastRanks.keys()
    if (this.#lastRanks.size > claimsMax && oldest !== undefined) this.#lastRanks.delete(oldest)
    return true
  }

  /** The claim waits: what was noted of it is from before it was sent again. */
  forget(claim: Pick<Claim, 'key' | 'id'>): void {
    if (this.#lastRanks.size > 0) this.#lastRanks.delete(claimName(claim))
  }
}

function rankOf(status: ClaimStatus): number {
  if (status.state === 'held') return status.leaving === undefined ? 1 : 2
  return status.state === 'absent' ? 3 : 0
}
