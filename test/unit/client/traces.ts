import { getEventListeners } from 'node:events'
import type { LockDriver, ClaimStatus } from '../../../src/core/contract/driver.ts'
import type { Locks } from '../../../src/index.ts'
import type { SimulatedProcess } from '../../../src/testing/simulation/simulated-process.ts'
import { clientOf } from '../../support/client-of.ts'

/** What a client must not leave behind: promises that never settle, listeners, and requests after it has gone. */
export class Traces {
  readonly #client: string
  /** Each returns its complaint, or false. */
  readonly #checks: (() => string | false)[] = []
  readonly #kept: string[] = []

  constructor(client: string) {
    this.#client = client
  }

  get found(): readonly string[] {
    const left = this.#checks.flatMap((check) => check() || [])
    return [...this.#kept, ...left].map((trace) => `${this.#client}: ${trace}`)
  }

  /** A promise that must settle, whatever happens and whoever awaits it. */
  owe(name: string, promise: Promise<unknown>): void {
    let owed = true
    const settle = (): void => void (owed = false)
    promise.then(settle, settle)
    this.#checks.push(() => owed && `${name} has not settled`)
  }

  /** A signal on which no listener may be left after its call. */
  lend(signal: AbortSignal): void {
    this.#checks.push(() => getEventListeners(signal, 'abort').length > 0 && 'a signal is listened to still')
  }

  /**
   * The same driver, which notes whether it is used after it was closed, or not closed at all. At times it sends a
   * notification that no driver should: that must harm nobody.
   */
  watch(driver: LockDriver): LockDriver {
    let closed = false
    let listeners = 0
    const use = (call: string): void => {
      if (closed) this.#kept.push(`${call} after the driver was closed`)
    }
    this.#checks.push(() => !closed && 'the driver was not closed')
    this.#checks.push(() => listeners > 0 && 'a notification listener is left')
    return {
      name: driver.name,
      supports: driver.supports,
      open: () => driver.open(),
      send: (requests) => {
        use(requests.map(({ op }) => op).join())
        return driver.send(requests)
      },
      list: (query) => driver.list(query),
      listen: (received) => {
        let count = 0
        const listening = driver.listen?.((key, id, notification) => {
          count += 1
          if (count % 5 === 0) received(key, id, nonsense[(count / 5) % nonsense.length] as ClaimStatus)
          received(key, id, notification)
        })
        listeners += 1
        return {
          [Symbol.dispose]: () => {
            listeners -= 1
            listening?.[Symbol.dispose]()
          },
        }
      },
      close: () => {
        closed = true
        return driver.close()
      },
    }
  }

  /** Checks a client that was closed. */
  lookAfter(locks: Locks): void {
    const { leases, acquisitions, elections, claimRuntimes, timers } = clientOf(locks)
    this.#note('closed', {
      leases: leases.length,
      acquisitions: acquisitions.size,
      elections: elections.size,
      claims: claimRuntimes.size,
      alarms: timers.tasks,
    })
  }

  /** Checks a client that nobody uses any more. */
  async lookAt(locks: Locks, process: SimulatedProcess): Promise<void> {
    // Claims that could not be released expire meanwhile.
    await process.wait(idleMs)
    // A lease in hand keeps no process alive, unless somebody was forgotten who waits.
    const lease = await locks.tryAcquire(`idle ${this.#client}`, { ttl: 1000 })
    const timersAlive = process.timersAlive
    await lease?.release()
    const { leases, acquisitions, elections, resuming, claimRuntimes, timers } = clientOf(locks)
    this.#note('idle', {
      leases: leases.length,
      acquisitions: acquisitions.size,
      elections: elections.size,
      claims: claimRuntimes.size,
      'claims to resume': resuming.size,
      alarms: timers.tasks,
      'timers that keep it alive': timersAlive,
    })
  }

  #note(when: string, kept: Readonly<Record<string, number>>): void {
    for (const [resource, count] of Object.entries(kept))
      if (count > 0) this.#kept.push(`${when}, it has ${count} ${resource}`)
  }
}

const nonsense: readonly unknown[] = [
  undefined,
  { state: 'held', fence: Number.NaN, ttlMs: 60_000 },
  { state: 'held', fence: 5, ttlMs: Infinity },
  { state: 'absent' },
]

/** Longer than the longest lease of a tour and its grace. */
const idleMs = 10_000
