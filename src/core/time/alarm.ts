import type { Environment, Timer } from './environment.ts'
import { Moments, type Moment } from './moments.ts'

/** Something that wants to be woken. The alarm keeps its place with it; a slot of -1 means none is set. */
export interface Sleeper {
  alarmSlot: number
  alarmMoment?: Moment | undefined
  wake(now: number): void
}

/** A power of two. */
const recentMax = 64

/**
 * One timer for any number of sleepers. Those who want to be woken in the same millisecond share a moment, in the order
 * in which they asked: leases are renewed by the hundred, and nobody is sorted but the moments.
 * Sleepers never throw; the timer keeps the process alive only while somebody is being waited for.
 */
export class Alarm {
  readonly #environment: Environment
  readonly #moments = new Moments()
  /** Moments to be found by their time. One that was pushed out is not found: another of the same time does as well. */
  readonly #recent: (Moment | undefined)[] = Array.from({ length: recentMax }, () => undefined)
  /** One that is over, to be used again. */
  #spare: Moment | undefined
  /** The one whose sleepers are being woken. */
  #ringing: Moment | undefined
  #sleepers = 0
  #timer: Timer | undefined
  #timerAt = Infinity
  #holds = 0
  #closed = false

  constructor(environment: Environment) {
    this.#environment = environment
  }

  get sleepers(): number {
    return this.#sleepers
  }

  /** Wakes the sleeper at `at`, instead of at the time set before. Infinity: not at all. */
  set(sleeper: Sleeper, at: number): void {
    const before = sleeper.alarmMoment
    if (before !== undefined) {
      if (before.at === at) return
      this.#leave(sleeper, before)
    }
    if (at !== Infinity && !this.#closed) this.#enter(sleeper, at)
  }

  /** While anybody holds, the timer keeps the process alive: somebody awaits what it will do. */
  hold(): void {
    this.#holds += 1
    if (this.#holds === 1) this.#timer?.keepAlive(true)
  }

  unhold(): void {
    this.#holds -= 1
    if (this.#holds === 0) this.#timer?.keepAlive(false)
  }

  /** Forgets every sleeper. */
  clear(): void {
    for (const moment of this.#moments.clear()) forgetAll(moment)
    if (this.#ringing !== undefined) forgetAll(this.#ringing)
    this.#recent.fill(undefined)
    this.#sleepers = 0
    this.#disarm()
  }

  /** Forgets every sleeper, and wakes nobody any more. */
  close(): void {
    this.#closed = true
    this.clear()
  }

  #enter(sleeper: Sleeper, at: number): void {
    const moment = this.#momentAt(at)
    sleeper.alarmMoment = moment
    sleeper.alarmSlot = moment.sleepers.length
    moment.sleepers.push(sleeper)
    this.#sleepers += 1
  }

  #leave(sleeper: Sleeper, moment: Moment): void {
    const { sleepers } = moment
    const slot = sleeper.alarmSlot
    forget(sleeper)
    this.#sleepers -= 1
    // The last one takes its place.
    const last = sleepers.pop() as Sleeper
    if (last !== sleeper) {
      sleepers[slot] = last
      last.alarmSlot = slot
    } else if (sleepers.length === 0) this.#drop(moment)
  }

  #momentAt(at: number): Moment {
    const place = at & (recentMax - 1)
    const recent = this.#recent[place]
    if (recent !== undefined && recent.at === at) return recent
    const moment = this.#spare ?? { at, slot: -1, sleepers: [] }
    this.#spare = undefined
    moment.at = at
    this.#recent[place] = moment
    this.#moments.add(moment)
    this.#arm()
    return moment
  }

  /** Nobody is there any more, or all are being woken. */
  #drop(moment: Moment): void {
    this.#moments.delete(moment)
    const place = moment.at & (recentMax - 1)
    if (this.#recent[place] === moment) this.#recent[place] = undefined
    if (moment.sleepers.length === 0) this.#spare = moment
  }

  #arm(): void {
    const at = this.#moments.first?.at ?? Infinity
    // A timer that fires too early, or for nobody, only looks at its watch: cheaper than moving it each time.
    if (at >= this.#timerAt) return
    this.#disarm()
    this.#timerAt = at
    this.#timer = this.#environment.timer(at - this.#environment.now(), () => this.#ring())
    if (this.#holds > 0) this.#timer.keepAlive(true)
  }

  #disarm(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    this.#timerAt = Infinity
  }

  #ring(): void {
    this.#timer = undefined
    // No other timer until all have been woken.
    this.#timerAt = -Infinity
    const now = this.#environment.now()
    for (let first = this.#moments.first; first !== undefined && first.at <= now; first = this.#moments.first) {
      this.#drop(first)
      this.#ringing = first
      this.#wakeAll(first, now)
    }
    this.#ringing = undefined
    this.#disarm()
    this.#arm()
  }

  /** Whoever is woken may take others out of the moment that have not been yet. */
  #wakeAll({ sleepers }: Moment, now: number): void {
    for (let slot = 0; slot < sleepers.length; slot += 1) {
      const sleeper = sleepers[slot] as Sleeper
      forget(sleeper)
      this.#sleepers -= 1
      sleeper.wake(now)
    }
  }
}

function forgetAll({ sleepers }: Moment): void {
  for (const sleeper of sleepers) forget(sleeper)
  sleepers.length = 0
}

function forget(sleeper: Sleeper): void {
  sleeper.alarmSlot = -1
  sleeper.alarmMoment = undefined
}
