import { pauseMs } from '../../core/time/backoff.ts'
import type { ClaimRegister } from './claim-register.ts'
import type { MongoStore } from './store.ts'

/** How long to wait between two polls of a key, where changes cannot be watched. */
export interface PollPace {
  readonly minMs: number
  readonly maxMs: number
  /** True: from the least, half as long again after each poll without a change. False: at random between the two. */
  readonly adaptive: boolean
}

/** A key that is polled. */
interface Watched {
  /** Polls in a row that found no change. */
  unchanged: number
  /** The place of our first waiter; the next in line is at 1. */
  place: number
  dueAt: number
}

/** A claim of ours as it is stored: id, channel, state, whether it was told to leave, and place in the queue. */
type StoredPlace = readonly [id: string, channel: string, state: string, leaving: boolean, place: number]

/** Keys polled in one read. */
const keysPerPollMax = 500
const pollTimeoutMs = 5000

export interface QueuePollerSetup {
  readonly store: MongoStore
  readonly channel: string
  readonly claims: ClaimRegister
  readonly pace: PollPace
  /** Whether no notification would arrive by itself. */
  readonly mustPoll: () => boolean
  readonly poll: (key: string, id: string) => void
}

/**
 * Polls keys in place of the claims that wait for them, with one read for all, and tells an owner to poll when its claim has
 * changed. The further back in the queue, the more seldom: only the next in line polls at the full pace.
 */
export class QueuePoller {
  readonly #setup: QueuePollerSetup
  readonly #keys = new Map<string, Watched>()
  #timer: NodeJS.Timeout | undefined
  #timerAt = Infinity
  #polling: Promise<void> | undefined
  #closed = false

  constructor(setup: QueuePollerSetup) {
    this.#setup = setup
  }

  /** Polls these keys from now on, for as long as they have claims of ours. */
  watch(keys: Iterable<string>): void {
    for (const key of keys) {
      const watched: Watched = { unchanged: 0, place: 1, dueAt: 0 }
      watched.dueAt = performance.now() + this.#pauseMs(key, watched)
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
    clearTimeout(this.#timer)
    await this.#polling
  }

  /** Sets the timer for whichever key is next. */
  #setTimer(): void {
    let dueAt = Infinity
    for (const watched of this.#keys.values()) dueAt = Math.min(dueAt, watched.dueAt)
    this.#wakeAt(dueAt)
  }

  #wakeAt(dueAt: number): void {
    if (this.#closed || this.#polling !== undefined || dueAt >= this.#timerAt) return
    clearTimeout(this.#timer)
    this.#timerAt = dueAt
    // Unreferenced: a waiter keeps the process alive by other means.
    this.#timer = setTimeout(() => void this.#pollDue(), Math.max(0, dueAt - performance.now())).unref()
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

  /** The keys to poll now. Keys without claims of ours are forgotten; while notifications arrive, none is polled. */
  #due(): string[] {
    const now = performance.now()
    const due: string[] = []
    for (const [key, watched] of this.#keys) {
      if (this.#setup.claims.of(key).size === 0) this.#keys.delete(key)
      else if (now >= watched.dueAt && due.length < keysPerPollMax) {
        if (watched.dueAt === 0 || this.#setup.mustPoll()) due.push(key)
        watched.dueAt = now + this.#pauseMs(key, watched)
      }
    }
    return due
  }

  async #pollKeys(keys: readonly string[]): Promise<void> {
    const { store, channel, claims } = this.#setup
    const { $zip } = { $zip: { inputs: ['$claims.id', '$claims.channel', states, leaving, places] } }
    const ours = { $filter: { input: { $zip }, cond: { $eq: [{ $arrayElemAt: ['$$this', 1] }, channel] } } }
    const pipeline = [{ $match: { _id: { $in: keys }, claims: { $exists: true } } }, { $project: { ours } }]
    const found = (await store.read(pipeline, pollTimeoutMs)) as { _id: string; ours: StoredPlace[] }[]
    const stored = new Map(found.map(({ _id, ours: seen }) => [_id, seen]))
    for (const key of keys) {
      const seen = new Map((stored.get(key) ?? []).map((place) => [place[0], place]))
      for (const [id, claim] of claims.of(key)) {
        const [, , state, isLeaving] = seen.get(id) ?? []
        if (claim.polled || (state === claim.state && isLeaving === claim.leaving)) continue
        claim.polled = true
        this.#setup.poll(key, id)
      }
      this.#setPace(key, seen)
    }
  }

  #setPace(key: string, seen: ReadonlyMap<string, StoredPlace>): void {
    const watched = this.#keys.get(key)
    if (watched === undefined) return
    let place = Infinity
    for (const [, , state, , at] of seen.values()) if (state === 'waiting') place = Math.min(place, at)
    watched.unchanged = place < watched.place ? 0 : watched.unchanged + 1
    watched.place = Number.isFinite(place) ? place : 1
    watched.dueAt = performance.now() + this.#pauseMs(key, watched)
  }

  #pauseMs(key: string, { unchanged, place }: Watched): number {
    const { pace, claims } = this.#setup
    // A holder can only learn that it shall leave: that can wait.
    return claims.waitsFor(key) ? pollPauseMs(pace, unchanged, place, Math.random()) : pace.maxMs
  }
}

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

/** `$zip` pairs by position: each claim must give a value, also where the field is missing. */
const states = { $map: { input: '$claims', in: { $ifNull: ['$$this.state', 'held'] } } }
const leaving = { $map: { input: '$claims', in: { $ne: [{ $type: '$$this.leaving' }, 'missing'] } } }
const places = { $range: [0, { $size: '$claims' }] }
