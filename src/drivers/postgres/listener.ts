import type { Connections, Ear } from './connections.ts'
import type { ClaimStatus } from '../../core/contract/driver.ts'

export interface ListenerOptions {
  readonly connections: Connections
  readonly channel: string
  /** Passes on what arrived, except our own probes. */
  readonly onPayload: (payload: string) => void
  /** Listening works again after it did not: news in between was missed. */
  readonly onGap: () => void
}

/** How long a probe may take before we count as deaf. */
const probeMs = 1000
/** How often to make sure, while somebody waits for news. */
const probeEveryMs = 10_000
const retryMinMs = 250
const retryMaxMs = 30_000

const probe = 'probe'

/**
 * Hears what is sent to one channel, and knows whether it does: a notification of its own must come back. Behind a pooler
 * in transaction mode none ever does; a connection may die without a word. It then tries again by and by.
 */
export class Listener {
  readonly #options: ListenerOptions
  #ear: Ear | undefined
  #hears = false
  #closed = false
  #retryMs = retryMinMs
  #retry: NodeJS.Timeout | undefined
  #probeArrived: (() => void) | undefined
  #provenAt = 0
  /** A session that was given up may still hear for a while, and its successor the same. */
  #attempt = 0

  constructor(options: ListenerOptions) {
    this.#options = options
  }

  /** Whether news arrives, as far as is known. */
  get hears(): boolean {
    return this.#hears
  }

  /** Begins to listen. Resolves, whether that works or not, within a few seconds. */
  async start(): Promise<void> {
    const { connections, channel } = this.#options
    const attempt = (this.#attempt += 1)
    // Not known before it listens: a session that ends earlier is found out by the probe.
    let ear: Ear | undefined
    try {
      ear = await connections.listen(
        channel,
        (payload) => attempt === this.#attempt && this.#onNotification(payload),
        () => this.#lost(ear),
      )
      this.#ear = ear
      if (this.#closed) return await this.#shut()
      this.#hears = await this.#probe()
    } catch {
      this.#hears = false
    }
    if (this.#closed) return
    if (this.#hears) this.#retryMs = retryMinMs
    else await this.#giveUpForNow()
  }

  /** Makes sure now and then that news still arrives. Cheap enough to be called with every send. */
  check(): void {
    if (!this.#hears || performance.now() - this.#provenAt < probeEveryMs) return
    this.#provenAt = performance.now()
    void this.#makeSure()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#hears = false
    this.#probeArrived?.()
    clearTimeout(this.#retry)
    await this.#shut()
  }

  async #makeSure(): Promise<void> {
    const hears = await this.#probe()
    if (!hears && !this.#closed && this.#hears) await this.#giveUpForNow()
  }

  /** Sends a notification to ourselves and waits for it. */
  async #probe(): Promise<boolean> {
    const { connections, channel } = this.#options
    let timer: NodeJS.Timeout | undefined
    const onPayload = new Promise<boolean>((resolve) => {
      this.#probeArrived = () => resolve(true)
      timer = setTimeout(() => resolve(false), probeMs).unref()
    })
    try {
      await connections.query('select pg_notify($1, $2)', [channel, probe], probeMs)
      return await onPayload
    } catch {
      return false
    } finally {
      clearTimeout(timer)
      this.#probeArrived = undefined
      this.#provenAt = performance.now()
    }
  }

  #onNotification(payload: string): void {
    if (payload === probe) this.#probeArrived?.()
    else this.#options.onPayload(payload)
  }

  #lost(ear: Ear | undefined): void {
    if (this.#closed || ear === undefined || this.#ear !== ear) return
    this.#ear = undefined
    void this.#giveUpForNow()
  }

  async #giveUpForNow(): Promise<void> {
    this.#hears = false
    this.#attempt += 1
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => void this.#startAgain(), this.#retryMs).unref()
    this.#retryMs = Math.min(this.#retryMs * 2, retryMaxMs)
    await this.#shut()
  }

  async #startAgain(): Promise<void> {
    await this.start()
    if (this.#hears) this.#options.onGap()
  }

  async #shut(): Promise<void> {
    const ear = this.#ear
    this.#ear = undefined
    try {
      await ear?.close()
    } catch {
      // It was gone already.
    }
  }
}

/** More than can be under way at once. */
const claimsMax = 1000

/**
 * What was last told of claims. News comes by two ways, with answers and as notifications, and may overtake itself; a
 * status only moves on, so what comes late is told by what it says.
 */
export class DeliveredNotifications {
  readonly #lastRank = new Map<string, number>()

  /** Notes the news. False: something later has been told of the claim. */
  isNew(id: string, status: ClaimStatus): boolean {
    const rank = rankOf(status)
    if (rank < (this.#lastRank.get(id) ?? 0)) return false
    this.#lastRank.delete(id)
    this.#lastRank.set(id, rank)
    const [oldest] = this.#lastRank.keys()
    if (this.#lastRank.size > claimsMax && oldest !== undefined) this.#lastRank.delete(oldest)
    return true
  }

  /** The claim waits: whatever was told of it was of an earlier life. */
  forget(id: string): void {
    this.#lastRank.delete(id)
  }
}

function rankOf(status: ClaimStatus): number {
  if (status.state === 'held') return status.leaving === undefined ? 1 : 2
  return status.state === 'absent' ? 3 : 0
}
