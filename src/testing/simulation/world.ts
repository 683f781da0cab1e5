import type { Environment, Timer } from '../../core/time/environment.ts'
import { seededRandom } from '../random.ts'

interface Due {
  readonly at: number
  readonly order: number
  readonly action: () => void
}

/** Time that passes only when `run` says so, for clients and nodes whose clocks need not agree. */
export class World {
  /** True time, in milliseconds. */
  now = 0
  readonly random: () => number
  readonly #due = new Set<Due>()
  #order = 0
  #ids = 0

  /** Whether the next fault happens: asked once for each, in the order of the story. */
  readonly strikes: () => boolean

  constructor(seed = 1, strikes: () => boolean = () => true) {
    this.random = seededRandom(seed)
    this.strikes = strikes
  }

  /** Timers that are set and not cancelled. */
  get timers(): number {
    return this.#due.size
  }

  /** A random whole number of milliseconds from `least` to `most`. */
  between(least: number, most: number): number {
    return Math.floor(least + this.random() * (most - least + 1))
  }

  chance(probability: number): boolean {
    return this.random() < probability
  }

  /** The rate of a process's clock: each is off by up to a fiftieth. */
  clockRate(): number {
    return 1 + (this.random() - 0.5) * 0.04
  }

  at(delayMs: number, action: () => void): Timer {
    const due: Due = { at: this.now + Math.max(0, delayMs), order: (this.#order += 1), action }
    this.#due.add(due)
    return { cancel: () => void this.#due.delete(due), keepAlive: () => {} }
  }

  wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => this.at(delayMs, resolve))
  }

  /** An environment whose clock runs at `rate` times true time. */
  environment(rate = 1): Environment {
    return {
      now: () => this.now * rate,
      wall: () => 1_700_000_000_000 + this.now,
      timer: (delayMs, action) => this.at(delayMs / rate, action),
      defer: queueMicrotask,
      random: this.random,
      id: () => `id-${(this.#ids += 1)}`,
    }
  }

  /** Lets time pass until `work` is done, or for so long. */
  async run(work: Promise<unknown>, atMostMs = 3_600_000): Promise<void> {
    const progress = { done: false }
    const note = (): void => void (progress.done = true)
    void work.then(note, note)
    const until = this.now + atMostMs
    await settled()
    while (!progress.done) {
      const next = this.#next()
      if (next === undefined || next.at > until) break
      this.now = next.at
      next.action()
      await settled()
    }
    await work
  }

  async pass(ms: number): Promise<void> {
    await this.run(this.wait(ms))
  }

  #next(): Due | undefined {
    let first: Due | undefined
    for (const due of this.#due) {
      if (first === undefined || due.at < first.at || (due.at === first.at && due.order < first.order)) first = due
    }
    if (first !== undefined) this.#due.delete(first)
    return first
  }
}

/** Everything that follows without time passing has happened. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
