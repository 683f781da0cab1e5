import type { ListedKey, LockDriver } from '../../core/contract/driver.ts'

/** An error names a few holders; a few waiters are enough to count the rest. */
const claimsPerError = 32
/** A reading serves the errors of this many milliseconds: those of a thousand acquisitions that time out together, one after another. */
const freshMs = 10

/** What a store has of a key that was refused, and its clock then. */
export interface RefusedKey {
  readonly now: number
  readonly listed: ListedKey | undefined
}

/**
 * Reads who is in the way of acquisitions that missed: a few claims and the number of the others, once for all acquisitions of a key
 * that miss together. A thousand that time out at once must not read a thousand queues.
 */
export class Refusals {
  readonly #driver: LockDriver
  readonly #now: () => number
  /** By key, oldest first. */
  readonly #readings = new Map<string, { readonly at: number; readonly reading: Promise<RefusedKey> }>()

  /** `now` is a monotonic clock. */
  constructor(driver: LockDriver, now: () => number) {
    this.#driver = driver
    this.#now = now
  }

  read(key: string): Promise<RefusedKey> {
    const at = this.#now()
    for (const [oldest, { at: readAt }] of this.#readings) {
      if (at < readAt + freshMs) break
      this.#readings.delete(oldest)
    }
    const found = this.#readings.get(key)
    if (found !== undefined) return found.reading
    const reading = this.#read(key)
    this.#readings.set(key, { at, reading })
    return reading
  }

  async #read(key: string): Promise<RefusedKey> {
    const page = await this.#driver.list({ key, claims: claimsPerError })
    return { now: page.now, listed: page.keys[0] }
  }
}
