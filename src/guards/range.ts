import type { Range } from '../core/driver.ts'
import { LeaseholdError } from '../core/errors.ts'
import { checkFence, superseded } from './superseded.ts'

/** Bytes written last under one fence. */
interface Stretch extends Range {
  readonly fence: number
}

/**
 * Keeps stale holders of byte ranges out of things in this process. Leases on ranges that do not overlap are held at
 * once and share one count of fences, so one number for all would refuse writes that harm nobody: each byte has its own.
 */
export class RangeGuard {
  readonly #written = new Map<string, readonly Stretch[]>()

  /**
   * Raises the fence of a range before a read whose result is to be written back: no earlier holder can write any byte of it
   * any more. Throws LOST (`superseded`) if a higher fence has been seen on one.
   */
  raise(resource: string, range: Range, fence: number): void {
    this.check(resource, range, fence)
  }

  /** Throws LOST (`superseded`) if a higher fence has been seen on any byte of the range. See `MemoryGuard.check`. */
  check(resource: string, range: Range, fence: number): void {
    const { start, end } = range
    if (!(Number.isSafeInteger(start) && Number.isSafeInteger(end) && 0 <= start && start < end)) {
      throw new LeaseholdError('INVALID', `The byte range ${start} to ${end} is empty or reversed.`)
    }
    const stretches = this.#written.get(resource) ?? []
    const touched = stretches.filter((each) => each.start < end && start < each.end)
    const seen = Math.max(0, ...touched.map((each) => each.fence))
    if (checkFence(fence) < seen) throw superseded(`${resource} [${start}, ${end})`, fence, seen)
    const untouched = stretches.filter((each) => !touched.includes(each))
    this.#written.set(resource, [
      ...untouched,
      ...touched.flatMap((each) => without(each, range)),
      { start, end, fence },
    ])
  }

  /** For a resource that is gone for good: from now on every fence passes. */
  forget(resource: string): void {
    this.#written.delete(resource)
  }
}

/** A guard for byte ranges of things in this process. */
export function rangeGuard(): RangeGuard {
  return new RangeGuard()
}

/** What is left of a stretch on either side of a range. */
function without(stretch: Stretch, { start, end }: Range): Stretch[] {
  const left = { ...stretch, end: Math.min(stretch.end, start) }
  const right = { ...stretch, start: Math.max(stretch.start, end) }
  return [left, right].filter((each) => each.start < each.end)
}
