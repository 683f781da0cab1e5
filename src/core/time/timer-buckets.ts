import type { TimerTask } from './timer-queue.ts'

/** A time at which somebody wants to be woken. */
export interface TimerBucket {
  at: number
  /** Its place in the heap; -1 while it has none. */
  slot: number
  /** Whoever wants to be woken then, in the order in which they asked. Each knows its place. */
  readonly tasks: TimerTask[]
}

/** Buckets in the order of time: a binary heap. */
export class TimerBuckets {
  readonly #heap: TimerBucket[] = []

  get first(): TimerBucket | undefined {
    return this.#heap[0]
  }

  add(bucket: TimerBucket): void {
    this.#heap.push(bucket)
    this.#rise(this.#heap.length - 1, bucket)
  }

  delete(bucket: TimerBucket): void {
    const { slot } = bucket
    if (slot < 0) return
    bucket.slot = -1
    const last = this.#heap.pop() as TimerBucket
    if (last === bucket) return
    this.#rise(slot, last)
    this.#sink(last.slot, last)
  }

  /** Takes all of them out. */
  clear(): TimerBucket[] {
    const buckets = this.#heap.splice(0)
    for (const bucket of buckets) bucket.slot = -1
    return buckets
  }

  #rise(from: number, bucket: TimerBucket): void {
    let slot = from
    while (slot > 0) {
      const above = (slot - 1) >> 1
      const other = this.#heap[above] as TimerBucket
      if (other.at <= bucket.at) break
      this.#place(slot, other)
      slot = above
    }
    this.#place(slot, bucket)
  }

  #sink(from: number, bucket: TimerBucket): void {
    const { length } = this.#heap
    let slot = from
    for (;;) {
      let below = slot * 2 + 1
      if (below >= length) break
      let other = this.#heap[below] as TimerBucket
      const beside = below + 1 < length ? (this.#heap[below + 1] as TimerBucket) : other
      if (beside.at < other.at) {
        other = beside
        below += 1
      }
      if (bucket.at <= other.at) break
      this.#place(slot, other)
      slot = below
    }
    this.#place(slot, bucket)
  }

  #place(slot: number, bucket: TimerBucket): void {
    this.#heap[slot] = bucket
    bucket.slot = slot
  }
}
