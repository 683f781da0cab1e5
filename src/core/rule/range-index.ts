import type { ClaimRecord } from './claim-record.ts'
import { overlaps } from './conflict.ts'
import type { Range } from '../contract/driver.ts'
import { SortedList } from './sorted-list.ts'

/**
 * Claims on ranges, to find those that overlap a range without reading the others. They are kept by size class, the
 * logarithm of their length, and in a class by their start: an overlapping range of a class cannot start far before.
 */
export class RangeIndex {
  readonly #classes = new Map<number, { readonly byStart: SortedList<ClaimRecord>; length: number }>()

  add(record: ClaimRecord, range: Range): void {
    const sizeClass = sizeClassOf(range)
    let found = this.#classes.get(sizeClass)
    if (found === undefined)
      this.#classes.set(sizeClass, (found = { byStart: new SortedList(compareStarts), length: 0 }))
    found.byStart.add(record)
    found.length += 1
  }

  remove(record: ClaimRecord, range: Range): void {
    const sizeClass = sizeClassOf(range)
    const found = this.#classes.get(sizeClass)
    if (found === undefined) return
    found.byStart.remove(record)
    found.length -= 1
    if (found.length === 0) this.#classes.delete(sizeClass)
  }

  *overlapping(range: Range): Iterable<ClaimRecord> {
    for (const [sizeClass, { byStart }] of this.#classes) {
      const earliest = range.start - longestOf(sizeClass)
      for (const record of byStart.from((each) => startOf(each) < earliest)) {
        if (startOf(record) >= range.end) break
        if (overlaps(record.claim, { range })) yield record
      }
    }
  }
}

/** The whole logarithm of a range's length. */
export function sizeClassOf({ start, end }: Range): number {
  return Math.floor(Math.log2(end - start))
}

/** No range of a size class is longer. */
export function longestOf(sizeClass: number): number {
  return 2 ** (sizeClass + 1)
}

/** By start, then by fence, for the same reason as the ends of `HolderIndex`. */
function compareStarts(first: ClaimRecord, second: ClaimRecord): number {
  return startOf(first) - startOf(second) || first.fence - second.fence
}

function startOf({ claim }: ClaimRecord): number {
  return claim.range?.start ?? 0
}
