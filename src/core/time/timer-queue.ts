import type { Environment, Timer } from './environment.ts'

/** A task to be woken. It carries its own bucket and slot in the queue; a slot of -1: not set. */
export interface TimerTask {
  timerSlot: number
  timerBucket?: TimerBucket | undefined
  wake(now: number): void
}

/** How many recent buckets are found by their time. A power of two. */
const recentMax = 64

/** The longest that tasks are woken in one turn of the event loop. */
const turnMaxMs = 10
/** How many tasks are woken before the turn is timed, which costs a little. */
const tasksUntimed = 128

/**
 * One timer for any number of tasks. Tasks for the same millisecond share a bucket, in the order in which they were set:
 * leases are renewed by the hundred, and only buckets are sorted.
 * Tasks never throw. The timer keeps the process alive only while `hold` is in force.
 */
export class TimerQueue {
  readonly #environment: Environment
  readonly #buckets = new TimerBuckets()
  /** Recent buckets by their time. If a bucket was pushed out, another of the same time is made: that does no harm. */
  readonly #recent: (TimerBucket | undefined)[] = Array.from({ length: recentMax }, () => undefined)
  /** An empty bucket, to be used again. */
  #spare: TimerBucket | undefined
  /** The bucket whose tasks are being woken. */
  #waking: TimerBucket | undefined
  #tasks = 0
  /** Counts the tasks woken, so as to read the clock now and then. */
  #woken = 0
  #timer: Timer | undefined
  #timerAt = Infinity
  #holds = 0
  #closed = false

  constructor(environment: Environment) {
    this.#environment = environment
  }

  get tasks(): number {
    return this.#tasks
  }

  /** Wakes the task at `at`, instead of at the time set before. Infinity: not at all. */
  set(task: TimerTask, at: number): void {
    const before = task.timerBucket
    if (before !== undefined) {
      if (before.at === at) return
      this.#leave(task, before)
    }
    if (at !== Infinity && !this.#closed) this.#enter(task, at)
  }

  /** Keeps the process alive until {@link unhold}, once for each call: a caller awaits what a task will do. */
  hold(): void {
    this.#holds += 1
    if (this.#holds === 1) this.#timer?.keepAlive(true)
  }

  /** Takes back one {@link hold}. */
  unhold(): void {
    this.#holds -= 1
    if (this.#holds === 0) this.#timer?.keepAlive(false)
  }

  /** Forgets every task. */
  clear(): void {
    for (const bucket of this.#buckets.clear()) forgetAll(bucket)
    if (this.#waking !== undefined) forgetAll(this.#waking)
    this.#recent.fill(undefined)
    this.#tasks = 0
    this.#disarm()
  }

  /** Forgets every task, and sets none any more. */
  close(): void {
    this.#closed = true
    this.clear()
  }

  #enter(task: TimerTask, at: number): void {
    const bucket = this.#bucketAt(at)
    task.timerBucket = bucket
    task.timerSlot = bucket.tasks.length
    bucket.tasks.push(task)
    this.#tasks += 1
  }

  #leave(task: TimerTask, bucket: TimerBucket): void {
    const { tasks } = bucket
    const slot = task.timerSlot
    forget(task)
    this.#tasks -= 1
    // The last task takes its place.
    const last = tasks.pop() as TimerTask
    if (last !== task) {
      tasks[slot] = last
      last.timerSlot = slot
    } else if (tasks.length === 0) this.#drop(bucket)
  }

  #bucketAt(at: number): TimerBucket {
    const place = at & (recentMax - 1)
    const recent = this.#recent[place]
    if (recent !== undefined && recent.at === at) return recent
    const bucket = this.#spare ?? { at, slot: -1, tasks: [] }
    this.#spare = undefined
    bucket.at = at
    this.#recent[place] = bucket
    this.#buckets.add(bucket)
    this.#arm()
    return bucket
  }

  /** Removes a bucket that is empty, or whose tasks are being woken. */
  #drop(bucket: TimerBucket): void {
    this.#buckets.delete(bucket)
    const place = bucket.at & (recentMax - 1)
    if (this.#recent[place] === bucket) this.#recent[place] = undefined
    if (bucket.tasks.length === 0) this.#spare = bucket
  }

  #arm(): void {
    const at = this.#buckets.first?.at ?? Infinity
    // A timer that fires too early only arms the next one: cheaper than moving the timer each time.
    if (at >= this.#timerAt) return
    this.#disarm()
    this.#timerAt = at
    this.#timer = this.#environment.timer(at - this.#environment.now(), () => this.#fire())
    if (this.#holds > 0) this.#timer.keepAlive(true)
  }

  #disarm(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    this.#timerAt = Infinity
  }

  #fire(): void {
    this.#timer = undefined
    // Arm no other timer until all are woken.
    this.#timerAt = -Infinity
    const now = this.#environment.now()
    for (let first = this.#buckets.first; first !== undefined && first.at <= now; first = this.#buckets.first) {
      this.#drop(first)
      this.#waking = first
      if (!this.#wakeAll(first, now)) break
    }
    this.#waking = undefined
    this.#disarm()
    this.#arm()
  }

  /**
   * Wakes the tasks of a bucket. If that takes long, those that are left are woken in the next turn of the event loop: false.
   * A woken task may remove others that are not woken yet from the bucket.
   */
  #wakeAll({ at, tasks }: TimerBucket, now: number): boolean {
    for (let slot = 0; slot < tasks.length; slot += 1) {
      this.#woken += 1
      if (this.#woken % tasksUntimed === 0 && this.#environment.now() - now > turnMaxMs) {
        this.#putBack(at, tasks.splice(slot))
        return false
      }
      const task = tasks[slot] as TimerTask
      forget(task)
      this.#tasks -= 1
      task.wake(now)
    }
    return true
  }

  #putBack(at: number, tasks: TimerTask[]): void {
    const bucket: TimerBucket = { at, slot: -1, tasks }
    for (const [slot, task] of tasks.entries()) {
      task.timerBucket = bucket
      task.timerSlot = slot
    }
    this.#buckets.add(bucket)
  }
}

function forgetAll({ tasks }: TimerBucket): void {
  for (const task of tasks) forget(task)
  tasks.length = 0
}

function forget(task: TimerTask): void {
  task.timerSlot = -1
  task.timerBucket = undefined
}

/** The tasks of one millisecond. */
export interface TimerBucket {
  at: number
  /** Its index in the heap; -1 while it is not there. */
  slot: number
  /** In the order in which they were set. Each task carries its index. */
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
      const parent = this.#heap[above] as TimerBucket
      if (parent.at <= bucket.at) break
      this.#place(slot, parent)
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
      let child = this.#heap[below] as TimerBucket
      const beside = below + 1 < length ? (this.#heap[below + 1] as TimerBucket) : child
      if (beside.at < child.at) {
        child = beside
        below += 1
      }
      if (bucket.at <= child.at) break
      this.#place(slot, child)
      slot = below
    }
    this.#place(slot, bucket)
  }

  #place(slot: number, bucket: TimerBucket): void {
    this.#heap[slot] = bucket
    bucket.slot = slot
  }
}
