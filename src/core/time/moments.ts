import type { Sleeper } from './alarm.ts'

/** A time at which somebody wants to be woken. */
export interface Moment {
  at: number
  /** Its place in the heap; -1 while it has none. */
  slot: number
  /** Whoever wants to be woken then, in the order in which they asked. Each knows its place. */
  readonly sleepers: Sleeper[]
}

/** Moments in the order of time: a binary heap. */
export class Moments {
  readonly #heap: Moment[] = []

  get first(): Moment | undefined {
    return this.#heap[0]
  }

  add(moment: Moment): void {
    this.#heap.push(moment)
    this.#rise(this.#heap.length - 1, moment)
  }

  delete(moment: Moment): void {
    const { slot } = moment
    if (slot < 0) return
    moment.slot = -1
    const last = this.#heap.pop() as Moment
    if (last === moment) return
    this.#rise(slot, last)
    this.#sink(last.slot, last)
  }

  /** Takes all of them out. */
  clear(): Moment[] {
    const moments = this.#heap.splice(0)
    for (const moment of moments) moment.slot = -1
    return moments
  }

  #rise(from: number, moment: Moment): void {
    let slot = from
    while (slot > 0) {
      const above = (slot - 1) >> 1
      const other = this.#heap[above] as Moment
      if (other.at <= moment.at) break
      this.#place(slot, other)
      slot = above
    }
    this.#place(slot, moment)
  }

  #sink(from: number, moment: Moment): void {
    const { length } = this.#heap
    let slot = from
    for (;;) {
      let below = slot * 2 + 1
      if (below >= length) break
      let other = this.#heap[below] as Moment
      const beside = below + 1 < length ? (this.#heap[below + 1] as Moment) : other
      if (beside.at < other.at) {
        other = beside
        below += 1
      }
      if (moment.at <= other.at) break
      this.#place(slot, other)
      slot = below
    }
    this.#place(slot, moment)
  }

  #place(slot: number, moment: Moment): void {
    this.#heap[slot] = moment
    moment.slot = slot
  }
}
