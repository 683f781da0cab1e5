import type { ClaimRecord } from './claim-record.ts'
import { overlaps } from './conflict.ts'
import type { Range } from '../contract/driver.ts'
import { SortedList } from './sorted-list.ts'

/**
 * What is on ranges, to find what overlaps a range without reading the rest. It is kept by size class, the logarithm of the length, and in
 * a class by the start: an overlapping range of a class cannot start far before. Items without a range are left out.
 */
export class RangeIndex<Item> {
  readonly #classes = new Map<number, { readonly byStart: SortedList<Item>; length: number }>()
  readonly #rangeOf: (item: Item) => Range | undefined
  readonly #compare: (first: Item, second: Item) => number

  /** `compareAlike`: the order of items that start alike. If it tells them all apart, none is searched for long. */
  constructor(rangeOf: (item: Item) => Range | undefined, compareAlike: (first: Item, second: Item) => number) {
    this.#rangeOf = rangeOf
    this.#compare = (first, second) => this.#startOf(first) - this.#startOf(second) || compareAlike(first, second)
  }

  add(item: Item): void {
    const range = this.#rangeOf(item)
    if (range === undefined) return
    const sizeClass = sizeClassOf(range)
    let found = this.#classes.get(sizeClass)
    if (found === undefined) {
      this.#classes.set(sizeClass, (found = { byStart: new SortedList(this.#compare), length: 0 }))
    }
    found.byStart.add(item)
    found.length += 1
  }

  remove(item: Item): void {
    const range = this.#rangeOf(item)
    if (range === undefined) return
    const sizeClass = sizeClassOf(range)
    const found = this.#classes.get(sizeClass)
    if (found === undefined) return
    found.byStart.remove(item)
    found.length -= 1
    if (found.length === 0) this.#classes.delete(sizeClass)
  }

  *overlapping(range: Range): Iterable<Item> {
    for (const [sizeClass, { byStart }] of this.#classes) {
      const earliest = range.start - longestOf(sizeClass)
      for (const item of byStart.from((each) => this.#startOf(each) < earliest)) {
        if (this.#startOf(item) >= range.end) break
        if (overlaps({ range: this.#rangeOf(item) }, { range })) yield item
      }
    }
  }

  #startOf(item: Item): number {
    return this.#rangeOf(item)?.start ?? 0
  }
}

/** An index of claims. Those on the whole key are left out. */
export function claimRanges(): RangeIndex<ClaimRecord> {
  return new RangeIndex<ClaimRecord>(
    ({ claim }) => claim.range,
    (first, second) => first.fence - second.fence,
  )
}

/** The whole logarithm of a range's length. */
export function sizeClassOf({ start, end }: Range): number {
  return Math.floor(Math.log2(end - start))
}

/** No range of a size class is longer. */
export function longestOf(sizeClass: number): number {
  return 2 ** (sizeClass + 1)
}
