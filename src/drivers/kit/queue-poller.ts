import { pauseMs } from '../../core/time/backoff.ts'
import type { Environment, Timer } from '../../core/time/environment.ts'
import type { ClaimRegister } from './claim-register.ts'

/** How long to wait between two polls of a key, where changes cannot be watched. */
export interface PollPace {
  readonly minMs: number
  readonly maxMs: number
  /** True: from the least, half as long again after each poll without a change. False: at random between the two. */
  readonly adaptive: boolean
}

/** A claim of this driver as it is stored. */
export interface StoredPlace {
  readonly state: string
  readonly leaving: boolean
  /** Claims in front of it, holders included: the next in line behind one holder is at 1. */
  readonly place: number
  /** A claim in front of it is over: whoever asks next ends that claim. */
  readonly isDue?: boolean
}

/** A key that is polled. */
interface Watched {
  /** Polls in a row that found no change. */
  unchanged: number
  /** The place of our first waiter; the next in line is at 1. */
  place: number
  dueAt: number
}

/** Keys polled in one read. */
const keysPerPollMax = 500
/** After so many keys, a poller with a budget has no credit left from quiet times. */
const burstSeconds = 2

/** What a {@link QueuePoller} polls, and how. */
export interface QueuePollerSetup {
  readonly claims: ClaimRegister
  readonly pace: PollPace
  readonly environment: Environment
  /** The claims of this driver that are stored for each of these keys, by id; a key without any may be left out. */
  readonly read: (keys: readonly string[]) => Promise<ReadonlyMap<string, ReadonlyMap<string, StoredPlace>>>
  /** Whether no notification would arrive by itself. */
  readonly mustPoll: () => boolean
  readonly poll: (key: string, id: string) => void
  /** The longest pause of a key that a claim waits for, where that is less than the longest of the pace. */
  readonly pauseMaxMs?: (key: string) => number
  /** The pause of a key that claims hold and none waits for. @default the longest of the pace */
  readonly heldPauseMs?: (key: string) => number
  /** How many keys a second may be read, where each read costs. @default any number */
  readonly keysPerSecondMax?: number
  /** The clock of the times in `claims`. @default that of the environment */
  readonly ownTime?: () => number
  /** No claim of ours is left on this key: it is polled no more. */
  readonly unwatched?: (key: string) => void
}

/**
 * Polls keys in place of the claims that wait for them, with one read for all, and tells an owner to poll when its claim has
 * changed. The further back in the queue, the more seldom: only the next in line polls at the full pace.
 */
export class QueuePoller {
  readonly #setup: QueuePollerSetup
  readonly #keys = new Map<string, Watched>()
  #timer: Timer | undefined
  #timerAt = Infinity
  #polling: Promise<void> | undefined
  #closed = false
  /** Keys that the budget allows to be read now. */
  #credit: number
  #creditAt: number

  constructor(setup: QueuePollerSetup) {
    this.#setup = setup
    this.#credit = burstSeconds * (setup.keysPerSecondMax ?? Infinity)
    this.#creditAt = setup.environment.now()
  }

  /** Polls these keys from now on, for as long as they have claims of ours. */
  watch(keys: Iterable<string>): void {
    for (const key of keys) {
      const watched: Watched = { unchanged: 0, place: 1, dueAt: 0 }
      // Never later than scheduled: claims that begin to wait all the time would put it off for ever.
      const scheduledAt = this.#keys.get(key)?.dueAt ?? Infinity
      watched.dueAt = Math.min(scheduledAt, this.#now() + this.#pauseMs(key, watched))
      this.#keys.set(key, watched)
      this.#wakeAt(watched.dueAt)
    }
  }

  /** Polls every key now: notifications may have been missed. */
  pollAll(): void {
    for (const watched of this.#keys.values()) watched.dueAt = 0
    this.#setTimer()
  }

  /** Resolves once nothing is under way. */
  async close(): Promise<void> {
    this.#closed = true
    this.#keys.clear()
    this.#timer?.cancel()
    await this.#polling
  }

  #now(): number {
    return this.#setup.environment.now()
  }

  /** Sets the timer for whichever key is next. */
  #setTimer(): void {
    let dueAt = Infinity
    for (const watched of this.#keys.values()) dueAt = Math.min(dueAt, watched.dueAt)
    this.#wakeAt(Math.max(dueAt, this.#creditedAt()))
  }

  /** When the budget allows the next key to be read. */
  #creditedAt(): number {
    const { keysPerSecondMax } = this.#setup
    if (keysPerSecondMax === undefined || this.#credit >= 1) return -Infinity
    return this.#creditAt + ((1 - this.#credit) / keysPerSecondMax) * 1000
  }

  #wakeAt(dueAt: number): void {
    if (this.#closed || this.#polling !== undefined || dueAt >= this.#timerAt) return
    this.#timer?.cancel()
    this.#timerAt = dueAt
    // Does not keep the process alive: a waiter does so by other means.
    this.#timer = this.#setup.environment.timer(Math.max(0, dueAt - this.#now()), () => void this.#pollDue())
  }

  async #pollDue(): Promise<void> {
    this.#timerAt = Infinity
    const due = this.#due()
    if (due.length > 0) {
      this.#polling = this.#pollKeys(due).catch(() => {})
      await this.#polling
      this.#polling = undefined
    }
    this.#setTimer()
  }

  /**
   * The keys to poll now. Keys without claims of ours are forgotten; while notifications arrive, none is polled. If the budget is too
   * small for all, they take turns: a key that is always due must not keep the others from being read.
   */
  #due(): string[] {
    const now = this.#now()
    const most = Math.min(keysPerPollMax, this.#earn(now))
    const due: string[] = []
    const polled = new Map<string, Watched>()
    for (const [key, watched] of this.#keys) {
      if (this.#setup.claims.of(key).size === 0) {
        this.#keys.delete(key)
        this.#setup.unwatched?.(key)
      } else if (now >= watched.dueAt && due.length < most) {
        if (watched.dueAt === 0 || this.#setup.mustPoll()) due.push(key)
        watched.dueAt = now + this.#pauseMs(key, watched)
        polled.set(key, watched)
      }
    }
    for (const [key, watched] of polled) {
      this.#keys.delete(key)
      this.#keys.set(key, watched)
    }
    this.#credit -= due.length
    return due
  }

  /** How many keys the budget allows by now. */
  #earn(now: number): number {
    const { keysPerSecondMax = Infinity } = this.#setup
    if (keysPerSecondMax === Infinity) return Infinity
    const earned = ((now - this.#creditAt) / 1000) * keysPerSecondMax
    this.#credit = Math.min(Math.max(1, burstSeconds * keysPerSecondMax), this.#credit + earned)
    this.#creditAt = now
    // Computed from the time at which a key was to be earned, a sum may come out a little below it.
    return Math.floor(this.#credit + 1e-6)
  }

  async #pollKeys(keys: readonly string[]): Promise<void> {
    const { read, claims } = this.#setup
    const asked = new Map(keys.map((key) => [key, new Map(claims.of(key))]))
    const stored = await read(keys)
    const now = this.#setup.ownTime?.() ?? this.#now()
    for (const key of keys) {
      const seen = stored.get(key) ?? nothing
      for (const [id, claim] of claims.of(key)) {
        // Answered since the reading was asked for, which may know nothing of it.
        if (asked.get(key)?.get(id) !== claim) continue
        const found = seen.get(id)
        if (found === undefined && claim.polled && now > claim.askedUntil) {
          claims.forget(key, id)
          continue
        }
        const isSame = found?.state === claim.state && found.leaving === claim.leaving
        if (claim.polled || (isSame && found.isDue !== true)) continue
        claim.polled = true
        this.#setup.poll(key, id)
      }
      this.#setPace(key, seen)
    }
  }

  #setPace(key: string, seen: ReadonlyMap<string, StoredPlace>): void {
    const watched = this.#keys.get(key)
    if (watched === undefined) return
    let nearest = Infinity
    for (const { state, place } of seen.values()) if (state === 'waiting') nearest = Math.min(nearest, place)
    watched.unchanged = nearest < watched.place ? 0 : watched.unchanged + 1
    watched.place = Number.isFinite(nearest) ? nearest : 1
    watched.dueAt = this.#now() + this.#pauseMs(key, watched)
  }

  #pauseMs(key: string, { unchanged, place }: Watched): number {
    const { pace, claims, environment, pauseMaxMs, heldPauseMs } = this.#setup
    // A holder can only learn that it shall leave, or has been evicted: that can wait.
    if (!claims.waitsFor(key)) return heldPauseMs?.(key) ?? pace.maxMs
    const pause = pollPauseMs(pace, unchanged, place, environment.random())
    return Math.min(pause, pauseMaxMs?.(key) ?? Infinity)
  }
}

const nothing: ReadonlyMap<string, StoredPlace> = new Map()

/**
 * How long to wait before the next poll, after `unchanged` polls without a change, for a claim at `place`; the next in line is
 * at 1. `random` is from 0 to 1.
 */
export function pollPauseMs(pace: PollPace, unchanged: number, place: number, random: number): number {
  const { minMs, maxMs, adaptive } = pace
  if (!adaptive) return minMs + random * (maxMs - minMs)
  const leastMs = Math.min(maxMs, minMs * Math.max(1, place))
  return pauseMs({ attempts: Infinity, minMs: leastMs, maxMs, factor: 1.5, jitter: 0.2 }, unchanged + 1, random)
}
