import { parseStamp, type LivenessStamp } from '../../core/machine/liveness.ts'

/** How often the processes in front of our waiting claims are looked at. */
const lookEveryMs = 40
/** Keys read from the file by one look; with more, they take turns. */
const keysPerLook = 256
/** Deaths remembered as reported; more than are ever found in that time. */
const reportsMax = 1000
/** A death that changed nothing (its claim has a grace, say) is reported again only after this. */
const remindAfterMs = 1000

export interface DeathWatchOptions {
  /** A number that changes when the file may have changed. */
  version(): string
  /** Who holds this key or stands first in its queue. */
  stampsOf(key: string): readonly string[]
  isGone(stamp: LivenessStamp): boolean
  /** Somebody in front of this claim has died: it should ask. */
  died(key: string, id: string): void
}

/**
 * Looks after the claims of one driver that wait: when a process in front of one dies, the claim is told to ask, and the
 * store then takes the dead one's claim away. One timer for all; without changes in the file only processes are looked at.
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

  /** Our waiting claims: key and id. */
  *claims(): Iterable<readonly [key: string, id: string]> {
    for (const [key, ids] of this.#waiting) for (const id of ids) yield [key, id]
  }

  add(key: string, id: string): void {
    const ids = this.#waiting.get(key)
    if (ids === undefined) this.#waiting.set(key, new Set([id]))
    else ids.add(id)
    this.#unread.add(key)
    this.#timer ??= setInterval(() => this.look(), lookEveryMs).unref()
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

  /** One look. Never throws: it runs in a timer, and those who wait ask by themselves in time. */
  look(): void {
    // Not as soon as nobody waits: who has had its turn mostly waits again before the next look.
    if (this.isIdle) return this.close()
    try {
      this.#readStamps()
      this.#report()
    } catch {
      // The file is busy or gone for the moment; the next look may have more luck.
    }
  }

  #readStamps(): void {
    const version = this.#options.version()
    if (version !== this.#version) {
      // Those not yet read keep their place in front: where there are many, all get their turn.
      for (const key of this.#waiting.keys()) this.#unread.add(key)
      this.#version = version
    }
    let looks = keysPerLook
    for (const key of this.#unread) {
      if (looks-- === 0) return
      this.#stampsByKey.set(key, this.#options.stampsOf(key))
      this.#unread.delete(key)
    }
  }

  #report(): void {
    const now = performance.now()
    const gone = new Map<string, boolean>()
    for (const [key, stamps] of this.#stampsByKey) {
      for (const name of stamps) {
        if (!gone.has(name)) gone.set(name, this.#isGone(name))
        if (gone.get(name) !== true) continue
        const report = `${key} ${name}`
        if (now - (this.#reportedAt.get(report) ?? -Infinity) < remindAfterMs) continue
        // Forgetting costs a second report.
        if (this.#reportedAt.size >= reportsMax) this.#reportedAt.clear()
        this.#reportedAt.set(report, now)
        // One of ours is enough: its asking moves the whole queue.
        for (const id of this.#waiting.get(key) ?? []) {
          this.#options.died(key, id)
          break
        }
      }
    }
  }

  #isGone(name: string): boolean {
    const stamp = parseStamp(name)
    return stamp !== undefined && this.#options.isGone(stamp)
  }
}
