import { setTimeout as pause } from 'node:timers/promises'
import type { LockDriver, Request, ClaimStatus } from '../core/contract/driver.ts'
import { LeaseholdError } from '../core/errors.ts'
import { seededRandom } from './random.ts'

/** What may go wrong between a client and its store. Shares are of all sends, from 0 (never) to 1 (always). */
export interface FaultPlan {
  /** The send fails and nothing reaches the store. */
  readonly reject?: number | undefined
  /** The send hangs, and fails only when the plan changes or the driver is closed. Nothing reaches the store. */
  readonly hang?: number | undefined
  /** The store carries the requests out and the reply is lost: every answer is `unknown`. */
  readonly dropReply?: number | undefined
  /** The store carries the requests out twice, as when a network repeats them; the second answer is the one that comes. */
  readonly duplicate?: number | undefined
  /** The requests are on their way for up to `delayMs`. */
  readonly delayRequest?: number | undefined
  /** The reply is on its way for up to `delayMs`. */
  readonly delayReply?: number | undefined
  /**
   * The longest delay.
   *
   * @default 100
   */
  readonly delayMs?: number | undefined
  /** Share of pushed notifications that never arrive. */
  readonly dropNotifications?: number | undefined
  /**
   * Which sends are at risk: those with a request for which this is true.
   *
   * @default all of them
   */
  readonly only?: ((request: Request) => boolean) | undefined
}

/** A driver with faults, which can be changed while it runs. */
export interface FaultyDriver extends LockDriver {
  /** What may go wrong from now on. */
  plan: FaultPlan
  /** How many faults there have been. */
  readonly faults: number
}

/**
 * Puts faults between a client and its driver. The same seed makes the same choices in the same order.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { memory } from 'leasehold/memory'
 * import { faulty } from 'leasehold/testing'
 *
 * const driver = faulty(memory(), { dropReply: 0.1 })
 * await using locks = await createLocks({ driver })
 * driver.plan = { reject: 1 }
 * ```
 */
export function faulty(driver: LockDriver, plan: FaultPlan = {}, seed = 1): FaultyDriver {
  return new Faulty(driver, plan, seededRandom(seed))
}

class Faulty implements FaultyDriver {
  faults = 0
  /** Absent where the driver has none, so that a composition sees the store's own abilities. */
  readonly dataAgeMs?: NonNullable<LockDriver['dataAgeMs']>
  readonly shareWaits?: NonNullable<LockDriver['shareWaits']>
  listen?: NonNullable<LockDriver['listen']>
  readonly #driver: LockDriver
  readonly #random: () => number
  #plan: FaultPlan
  #hanging: (() => void)[] = []

  constructor(driver: LockDriver, plan: FaultPlan, random: () => number) {
    this.#driver = driver
    this.#plan = plan
    this.#random = random
    if (driver.dataAgeMs !== undefined) this.dataAgeMs = () => driver.dataAgeMs?.() ?? Promise.resolve(0)
    const shareWaits = driver.shareWaits?.bind(driver)
    if (shareWaits !== undefined) this.shareWaits = shareWaits
    this.#listenAsDriver()
  }

  get name(): string {
    return this.#driver.name
  }

  /** As of now: some drivers know what their store supports only once they are open. */
  get supports(): LockDriver['supports'] {
    return this.#driver.supports
  }

  get store(): unknown {
    return this.#driver.store
  }

  /** Some drivers know only once they are open whether their store pushes. */
  #listenAsDriver(): void {
    const listen = this.#driver.listen?.bind(this.#driver)
    if (listen === undefined) return
    this.listen = (onNotification, onGap) =>
      listen(
        (key, id, notification) => {
          if (!this.#happens(this.plan.dropNotifications)) onNotification(key, id, notification)
        },
        () => {
          if (!this.#happens(this.plan.dropNotifications)) onGap?.()
        },
      )
  }

  get plan(): FaultPlan {
    return this.#plan
  }

  set plan(plan: FaultPlan) {
    this.#plan = plan
    for (const fail of this.#hanging.splice(0)) fail()
  }

  async open(): Promise<void> {
    await this.#driver.open()
    this.#listenAsDriver()
  }

  async send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const { plan } = this
    if (plan.only !== undefined && !requests.some(plan.only)) return this.#driver.send(requests)
    if (this.#happens(plan.hang)) await new Promise<void>((resolve) => void this.#hanging.push(resolve))
    else if (!this.#happens(plan.reject)) return this.#carry(requests, plan)
    throw new LeaseholdError('UNAVAILABLE', 'A planned fault: nothing was sent.', { reason: 'network' })
  }

  async #carry(requests: readonly Request[], plan: FaultPlan): Promise<readonly ClaimStatus[]> {
    await this.#delay(plan.delayRequest)
    if (this.#happens(plan.duplicate)) await this.#driver.send(requests)
    const statuses = await this.#driver.send(requests)
    await this.#delay(plan.delayReply)
    if (!this.#happens(plan.dropReply)) return statuses
    const error = new LeaseholdError('UNAVAILABLE', 'A planned fault: the reply was lost.', { reason: 'network' })
    return requests.map(() => ({ state: 'unknown', error }))
  }

  list(query: Parameters<LockDriver['list']>[0]): ReturnType<LockDriver['list']> {
    return this.#driver.list(query)
  }

  close(): Promise<void> {
    this.plan = {}
    return this.#driver.close()
  }

  async #delay(share: number | undefined): Promise<void> {
    if (this.#happens(share)) await pause(this.#random() * (this.plan.delayMs ?? 100))
  }

  #happens(share: number | undefined): boolean {
    if (share === undefined || share === 0 || this.#random() >= share) return false
    this.faults += 1
    return true
  }
}
