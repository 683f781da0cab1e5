import type { Lease } from '../../../src/index.ts'
import { type WebLock, type WebLockManager, webLocks } from '../../../src/web-locks/index.ts'
import type { LoggedWish } from '../../../src/testing/history/event.ts'
import type { RunLog } from '../../../src/testing/simulation/run-log.ts'
import type { Setting } from './setting.ts'
import { clientOf } from '../../support/client-of.ts'

/** Asks for locks as pages do, by the W3C interface. */
export class WebPage {
  readonly #setting: Setting
  readonly #runLog: RunLog
  readonly #manager: WebLockManager

  constructor(setting: Setting, runLog: RunLog) {
    this.#setting = setting
    this.#runLog = runLog
    this.#manager = webLocks(setting.locks)
  }

  async request(): Promise<void> {
    const { world } = this.#setting
    if (world.chance(0.1)) return this.#query()
    if (world.chance(0.2)) return this.#requestWhatIsStolen()
    const mode = world.chance(0.5) ? 'shared' : 'exclusive'
    const wanted: LoggedWish = { key: 'page', mode }
    const attempt = this.#runLog.begin(wanted)
    const ifAvailable = world.chance(0.2)
    const given = ifAvailable || world.chance(0.5) ? undefined : this.#signal()
    const options = { mode, ifAvailable, ...(given !== undefined && { signal: given.signal }) } as const
    const requesting = this.#manager.request('page', options, (lock) => {
      if (given?.signal.aborted === true) throw new Error('The page was called back although it had given up before.')
      if (lock === null) return this.#refused(attempt)
      return this.#hold(attempt, lock)
    })
    await this.#settled(attempt, requesting, given?.reason)
  }

  /** A stolen lock has no certain end: only its fences are checked. */
  async #requestWhatIsStolen(): Promise<void> {
    const { world, process } = this.#setting
    const steal = world.chance(0.3)
    const attempt = this.#runLog.begin({ key: 'loot', mode: 'exclusive', jumps: steal })
    const requesting = this.#manager.request('loot', { steal }, async (lock) => {
      this.#runLog.deliver({ type: 'granted', attempt, fence: lock?.fence ?? 0 })
      this.#runLog.deliver({ type: 'release', attempt })
      await process.wait(world.between(1, 300))
    })
    await this.#settled(attempt, requesting, undefined)
  }

  async #hold(attempt: string, lock: WebLock): Promise<void> {
    const { world, process } = this.#setting
    const lease = this.#leaseOf(lock)
    this.#runLog.got(attempt, lease)
    await process.wait(world.chance(0.2) ? world.between(300, 1200) : world.between(1, 60))
    this.#runLog.ends(attempt, lease)
  }

  /** What the page does not see: until when its lock can be trusted. */
  #leaseOf({ fence }: WebLock): Lease {
    for (const lease of clientOf(this.#setting.locks).leases) if (lease.fence === fence) return lease
    throw new Error(`The callback was called with fence ${fence}, which its client does not hold.`)
  }

  async #query(): Promise<void> {
    await this.#manager.query().catch((error: unknown) => this.#unlessPromised(error, undefined))
  }

  async #settled(attempt: string, requesting: Promise<unknown>, reason: Error | undefined): Promise<void> {
    try {
      await requesting
    } catch (error) {
      this.#unlessPromised(error, reason)
      this.#refused(attempt)
    }
  }

  #refused(attempt: string): void {
    this.#runLog.deliver({ type: 'refused', attempt })
  }

  #signal(): { readonly signal: AbortSignal; readonly reason: Error } {
    const { world, process, traces } = this.#setting
    const controller = new AbortController()
    traces.lend(controller.signal)
    const reason = new Error('The page no longer wants it.')
    const abort = (): void => controller.abort(reason)
    if (world.chance(0.7)) process.environment.timer(world.between(1, 1500), abort)
    else this.#atNextGrant(abort)
    return { signal: controller.signal, reason }
  }

  /** In the same turn, and before the callback. */
  #atNextGrant(action: () => void): void {
    const listening = this.#setting.locks.on('acquired', () => {
      listening[Symbol.dispose]()
      action()
    })
  }

  /** What docs/web-locks.md says that a request may reject with. */
  #unlessPromised(error: unknown, reason: Error | undefined): void {
    const { name, code } = error as { name?: string; code?: unknown }
    if (name === 'InvalidStateError' && clientOf(this.#setting.locks).closed) return
    if (name !== 'AbortError' && code !== 'UNAVAILABLE' && (reason === undefined || error !== reason)) throw error
  }
}
