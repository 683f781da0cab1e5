import type { Range } from '../core/contract/driver.ts'
import { LeaseholdError } from '../core/errors.ts'
import { checkFence, superseded } from './superseded.ts'

/** A stretch of bytes whose last write had the same fence. */
interface Stretch extends Range {
  readonly fence: number
}

/**
 * Keeps stale holders of byte ranges out of resources in this process. Leases on disjoint ranges are held at once and take
 * their fences from one counter, so one fence per resource would refuse harmless writes: each byte has its own.
 */
export interface RangeGuard {
  /**
   * Raises the fence of a range before a read whose result is to be written back: no earlier holder can write any of its
   * bytes any more. Throws LOST (`superseded`) if a higher fence has been seen on any of them.
   */
  raise(resource: string, range: Range, fence: number): void
  /** Throws LOST (`superseded`) if a higher fence has been seen on any byte of the range. See `MemoryGuard.check`. */
  check(resource: string, range: Range, fence: number): void
  /** Drops the fences of a resource that no longer exists: from now on every fence passes. */
  forget(resource: string): void
}

class RangeFences implements RangeGuard {
  /** By resource, in byte order. Adjacent stretches with the same fence are joined. */
  readonly #written = new Map<string, Stretch[]>()

  raise(resource: string, range: Range, fence: number): void {
    this.check(resource, range, fence)
  }

  check(resource: string, range: Range, fence: number): void {
    const { start, end } = range
    if (!(Number.isSafeInteger(start) && Number.isSafeInteger(end) && 0 <= start && start < end)) {
      throw new LeaseholdError('INVALID', `The byte range ${start} to ${end} is empty or reversed.`)
    }
    const stretches = this.#written.get(resource) ?? []
    const from = firstEndingAt(stretches, start)
    const rest: Stretch[] = []
    let seen = 0
    let to = from
    for (let each = stretches[to]; each !== undefined && each.start <= end; each = stretches[(to += 1)]) {
      if (each.start < end && start < each.end) seen = Math.max(seen, each.fence)
      rest.push(...without(each, range))
    }
    if (checkFence(fence) < seen) throw superseded(`${resource} [${start}, ${end})`, fence, seen)
    let written: Stretch = { start, end, fence }
    for (const each of rest) if (each.fence === fence) written = joined(written, each)
    const others = rest.filter((each) => each.fence !== fence)
    const before = others.filter((each) => each.end <= start)
    stretches.splice(from, to - from, ...before, written, ...others.slice(before.length))
    this.#written.set(resource, stretches)
  }

  forget(resource: string): void {
    this.#written.delete(resource)
  }
}

/**
 * A guard for byte ranges of resources in this process.
 *
 * @example
 * ```ts
 * import { byteRange } from 'leasehold'
 * import { rangeGuard } from 'leasehold/guards'
 *
 * const guard = rangeGuard()
 * await using lease = await locks.acquire(byteRange(7, 0, 4096))
 * guard.check('inode 7', { start: 0, end: 4096 }, lease.fence)
 * ```
 */
export function rangeGuard(): RangeGuard {
  return new RangeFences()
}

/** The index of the first stretch that ends at this byte or after it (binary search). */
function firstEndingAt(stretches: readonly Stretch[], byte: number): number {
  let [least, most] = [0, stretches.length]
  while (least < most) {
    const middle = (least + most) >> 1
    if ((stretches[middle] as Stretch).end < byte) least = middle + 1
    else most = middle
  }
  return least
}

/** Joins two adjacent stretches. */
function joined(left: Stretch, right: Stretch): Stretch {
  return { ...left, start: Math.min(left.start, right.start), end: Math.max(left.end, right.end) }
}

/** The parts of a stretch before and after a range. */
function without(stretch: Stretch, { start, end }: Range): Stretch[] {
  const left = { ...stretch, end: Math.min(stretch.end, start) }
  const right = { ...stretch, start: Math.max(stretch.start, end) }
  return [left, right].filter((each) => each.start < each.end)
}
