import { parseStamp, type LivenessStamp } from '../../core/machine/liveness.ts'

/** How often the processes in front of our waiting claims are checked. */
const checkEveryMs = 40
/** Keys read from the file by one check; with more, they take turns. */
const keysPerCheck = 256
/** Reported deaths that are remembered: more than are ever found within `remindAfterMs`. */
const reportsMax = 1000
/** A death that changed nothing (the dead process's claim has a grace, say) is reported again only after this. */
const remindAfterMs = 1000

/** What a {@link DeathWatch} reads, and whom it notifies. */
export interface DeathWatchOptions {
  /** A text that changes when the file may have changed. */
  version(): string
  /** The stamps of the claims that hold this key or are first in its queue. */
  stampsOf(key: string): readonly string[]
  isGone(stamp: LivenessStamp): boolean
  /** A process in front of this claim has died: the claim should poll. */
  onDeath(key: string, id: string): void
}

/**
 * Watches the processes in front of the waiting claims of one driver. When one dies, a waiting claim polls, and the rule then ends the
 * dead process's claim. One timer for all; while the file does not change, only processes are checked.
 */
export class DeathWatch {
  readonly #options: DeathWatchOptions
  /** Ids of our waiting claims, by key. */
  readonly #waiting = new Map<string, Set<string>>()
  readonly #stampsByKey = new Map<string, readonly string[]>()
  readonly #reportedAt = new Map<string, number>()
  /** Keys still to be read since the file last changed. */
  readonly #unread = new Set<string>()
  #version = ''
  #timer: NodeJS.Timeout | undefined

  constructor(options: DeathWatchOptions) {
    this.#options = options
  }

  get isIdle(): boolean {
    return this.#waiting.size === 0
  }

  /** How many reported deaths it remembers. */
  get remembered(): number {
    return this.#reportedAt.size
  }

  add(key: string, id: string): void {
    const ids = this.#waiting.get(key)
    if (ids === undefined) this.#waiting.set(key, new Set([id]))
    else ids.add(id)
    this.#unread.add(key)
    this.#timer ??= setInterval(() => this.check(), checkEveryMs).unref()
  }

  delete(key: string, id: string): void {
    const ids = this.#waiting.get(key)
    if (ids === undefined || !ids.delete(id) || ids.size > 0) return
    this.#waiting.delete(key)
    this.#stampsByKey.delete(key)
    this.#unread.delete(key)
  }

  close(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#reportedAt.clear()
  }

  /** One check. Never throws: it runs in a timer, and waiting claims renew in time by themselves. */
  check(): void {
    // Stop only here, not with the last waiter: a claim that had its turn is mostly followed by another before the next check.
    if (this.isIdle) return this.close()
    try {
      this.#readStamps()
      this.#report()
    } catch {
      // The file is busy or gone for the moment: the next check tries again.
    }
  }

  #readStamps(): void {
    const version = this.#options.version()
    if (version !== this.#version) {
      // Keys not yet read keep their place in front, so that each of many keys gets its turn.
      for (const key of this.#waiting.keys()) this.#unread.add(key)
      this.#version = version
    }
    let readsLeft = keysPerCheck
    for (const key of this.#unread) {
      if (readsLeft-- === 0) return
      this.#stampsByKey.set(key, this.#options.stampsOf(key))
      this.#unread.delete(key)
    }
  }

  #report(): void {
    const now = performance.now()
    const gone = new Map<string, boolean>()
    for (const [key, stamps] of this.#stampsByKey) {
      for (const stamp of stamps) {
        if (!gone.has(stamp)) gone.set(stamp, this.#isGone(stamp))
        if (gone.get(stamp) !== true) continue
        const report = `${key} ${stamp}`
        if (now - (this.#reportedAt.get(report) ?? -Infinity) < remindAfterMs) continue
        // Forgetting costs no more than a second report.
        if (this.#reportedAt.size >= reportsMax) this.#reportedAt.clear()
        this.#reportedAt.set(report, now)
        // One of our claims is enough: its poll moves the whole queue.
        for (const id of this.#waiting.get(key) ?? []) {
          this.#options.onDeath(key, id)
          break
        }
      }
    }
  }

  #isGone(stamp: string): boolean {
    const parsed = parseStamp(stamp)
    return parsed !== undefined && this.#options.isGone(parsed)
  }
}
