import type { Environment, Timer } from './environment.ts'

/** Something that wants to be woken. An alarm keeps its place in `alarmSlot`; -1 means none is set. */
export interface Sleeper {
  alarmSlot: number
  wake(now: number): void
}

/**
 * One timer for any number of sleepers: a binary heap ordered by time, and a timer for its top.
 * Sleepers never throw; the timer keeps the process alive only while somebody is being waited for.
 */
export class Alarm {
  readonly #environment: Environment
  readonly #heap: Sleeper[] = []
  /** When the sleeper in the same slot wants to be woken. */
  readonly #times: number[] = []
  #timer: Timer | undefined
  #timerAt = Infinity
  #holds = 0

  constructor(environment: Environment) {
    this.#environment = environment
  }

  get sleepers(): number {
    return this.#heap.length
  }

  /** Wakes the sleeper at `at`, instead of at the time set before. Infinity: not at all. */
  set(sleeper: Sleeper, at: number): void {
    const slot = sleeper.alarmSlot
    if (at === Infinity) {
      if (slot >= 0) this.#remove(sleeper)
    } else if (slot < 0) {
      this.#heap.push(sleeper)
      this.#times.push(at)
      this.#rise(this.#heap.length - 1, sleeper, at)
      this.#arm()
    } else if (at > this.#timeIn(slot)) {
      this.#sink(slot, sleeper, at)
    } else if (at < this.#timeIn(slot)) {
      this.#rise(slot, sleeper, at)
      this.#arm()
    }
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
    for (const sleeper of this.#heap) sleeper.alarmSlot = -1
    this.#heap.length = 0
    this.#times.length = 0
    this.#disarm()
  }

  #arm(): void {
    const at = this.#times[0] ?? Infinity
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
    for (let top = this.#heap[0]; top !== undefined && this.#timeIn(0) <= now; top = this.#heap[0]) {
      // It keeps its place while it is woken: most want to be woken again, and are then moved once, not twice.
      this.#times[0] = -Infinity
      top.wake(now)
      if (top.alarmSlot >= 0 && this.#timeIn(top.alarmSlot) === -Infinity) this.#remove(top)
    }
    this.#disarm()
    this.#arm()
  }

  #remove(sleeper: Sleeper): void {
    const slot = sleeper.alarmSlot
    sleeper.alarmSlot = -1
    const last = this.#heap.pop() as Sleeper
    const at = this.#times.pop() as number
    if (last === sleeper) return
    this.#rise(slot, last, at)
    this.#sink(last.alarmSlot, last, at)
  }

  #rise(from: number, sleeper: Sleeper, at: number): void {
    let slot = from
    while (slot > 0) {
      const above = (slot - 1) >> 1
      const aboveAt = this.#timeIn(above)
      if (aboveAt <= at) break
      this.#place(slot, this.#heap[above] as Sleeper, aboveAt)
      slot = above
    }
    this.#place(slot, sleeper, at)
  }

  #sink(from: number, sleeper: Sleeper, at: number): void {
    let slot = from
    for (;;) {
      let below = slot * 2 + 1
      if (below >= this.#heap.length) break
      if (this.#timeIn(below + 1) < this.#timeIn(below)) below += 1
      const belowAt = this.#timeIn(below)
      if (at <= belowAt) break
      this.#place(slot, this.#heap[below] as Sleeper, belowAt)
      slot = below
    }
    this.#place(slot, sleeper, at)
  }

  /** Infinity past the end. */
  #timeIn(slot: number): number {
    return slot < this.#times.length ? (this.#times[slot] as number) : Infinity
  }

  #place(slot: number, sleeper: Sleeper, at: number): void {
    this.#heap[slot] = sleeper
    this.#times[slot] = at
    sleeper.alarmSlot = slot
  }
}
