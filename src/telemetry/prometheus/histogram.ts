import { LeaseholdError } from '../../core/errors.ts'
import type { Distribution } from '../exposition.ts'

/** Counts values by how large they are. */
export class Histogram {
  readonly #bounds: readonly number[]
  /** How many are in each bucket and in none before; the last is for those beyond every bound. */
  readonly #counts: number[]
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0)
  }

  observe(value: number): void {
    const fits = this.#bounds.findIndex((bound) => value <= bound)
    const bucket = fits < 0 ? this.#bounds.length : fits
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#sum += value
  }

  /** As it is published: each bucket has also what is in those before it. */
  get distribution(): Omit<Distribution, 'labels'> {
    let count = 0
    const upTo = this.#counts.map((each) => (count += each))
    return { buckets: this.#bounds.map((le, index) => ({ le, count: upTo[index] ?? 0 })), sum: this.#sum, count }
  }
}

/** Throws INVALID unless these are numbers that rise. */
export function checkBuckets(bounds: readonly number[], what: string): readonly number[] {
  const rise = bounds.every((bound, index) => index === 0 || bound > (bounds[index - 1] ?? Infinity))
  if (bounds.length > 0 && bounds.every(Number.isFinite) && rise) return [...bounds]
  throw new LeaseholdError('INVALID', `${what} must be one or more numbers of seconds, each above the one before.`)
}
