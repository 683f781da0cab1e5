import type { Environment, Timer } from './environment.ts'

/** Something that wants to be woken. An alarm keeps its place in `alarmSlot`; -1 means none is set. */
export interface Sleeper {
  alarmAt: number
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
    if (sleeper.alarmSlot >= 0) {
      if (sleeper.alarmAt === at) return
      this.#remove(sleeper)
    }
    if (at === Infinity) return
    sleeper.alarmAt = at
    this.#heap.push(sleeper)
    this.#rise(this.#heap.length - 1, sleeper)
    this.#arm()
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
    this.#disarm()
  }

  #arm(): void {
    const at = this.#heap[0]?.alarmAt ?? Infinity
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
    this.#timerAt = Infinity
    const now = this.#environment.now()
    for (let top = this.#heap[0]; top !== undefined && top.alarmAt <= now; top = this.#heap[0]) {
      this.#remove(top)
      top.wake(now)
    }
    this.#arm()
  }

  #remove(sleeper: Sleeper): void {
    const slot = sleeper.alarmSlot
    sleeper.alarmSlot = -1
    const last = this.#heap.pop() as Sleeper
    if (last === sleeper) return
    this.#rise(slot, last)
    this.#sink(last.alarmSlot, last)
  }

  #rise(from: number, sleeper: Sleeper): void {
    let slot = from
    while (slot > 0) {
      const above = (slot - 1) >> 1
      const parent = this.#heap[above] as Sleeper
      if (parent.alarmAt <= sleeper.alarmAt) break
      this.#place(slot, parent)
      slot = above
    }
    this.#place(slot, sleeper)
  }

  #sink(from: number, sleeper: Sleeper): void {
    let slot = from
    for (;;) {
      let below = slot * 2 + 1
      const left = this.#heap[below]
      const right = this.#heap[below + 1]
      if (left === undefined) break
      let child = left
      if (right !== undefined && right.alarmAt < left.alarmAt) {
        child = right
        below += 1
      }
      if (sleeper.alarmAt <= child.alarmAt) break
      this.#place(slot, child)
      slot = below
    }
    this.#place(slot, sleeper)
  }

  #place(slot: number, sleeper: Sleeper): void {
    this.#heap[slot] = sleeper
    sleeper.alarmSlot = slot
  }
}
