/** A chunk is split when it has this many items: long enough to search fast, short enough to shift fast. */
const chunkMax = 512

/** Items in order. Adding, removing and finding cost about the logarithm of the length, unless many items rank alike. */
export class SortedList<Item> {
  readonly #compare: (first: Item, second: Item) => number
  /** Each chunk is sorted and, but for the only one of an empty list, not empty. */
  #chunks: Item[][] = [[]]

  constructor(compare: (first: Item, second: Item) => number) {
    this.#compare = compare
  }

  /** A list of items that are in order already. */
  static of<Item>(sorted: readonly Item[], compare: (first: Item, second: Item) => number): SortedList<Item> {
    const list = new SortedList(compare)
    if (sorted.length === 0) return list
    list.#chunks = []
    for (let at = 0; at < sorted.length; at += chunkMax / 2) list.#chunks.push(sorted.slice(at, at + chunkMax / 2))
    return list
  }

  add(item: Item): void {
    const isBefore = (other: Item): boolean => this.#compare(other, item) < 0
    const at = this.#chunkOf(isBefore)
    const chunk = this.#chunks[at] as Item[]
    chunk.splice(placeIn(chunk, isBefore), 0, item)
    if (chunk.length >= chunkMax) this.#chunks.splice(at + 1, 0, chunk.splice(chunkMax / 2))
  }

  /** Removes this very item, wherever among those that rank like it it stands. */
  remove(item: Item): void {
    const isBefore = (other: Item): boolean => this.#compare(other, item) < 0
    for (let at = this.#chunkOf(isBefore); at < this.#chunks.length; at += 1) {
      const chunk = this.#chunks[at] as Item[]
      for (let place = placeIn(chunk, isBefore); place < chunk.length; place += 1) {
        const found = chunk[place] as Item
        if (found === item) {
          chunk.splice(place, 1)
          if (chunk.length === 0 && this.#chunks.length > 1) this.#chunks.splice(at, 1)
          return
        }
        if (this.#compare(found, item) > 0) return
      }
    }
  }

  first(): Item | undefined {
    return this.#chunks[0]?.[0]
  }

  /** All items, in order. The list must not change meanwhile. */
  *all(): Iterable<Item> {
    for (const chunk of this.#chunks) yield* chunk
  }

  /** The items from the first on that is not before, in order. The list must not change meanwhile. */
  *from(isBefore: (item: Item) => boolean): Iterable<Item> {
    for (let at = this.#chunkOf(isBefore); at < this.#chunks.length; at += 1) {
      const chunk = this.#chunks[at] as Item[]
      for (let place = placeIn(chunk, isBefore); place < chunk.length; place += 1) yield chunk[place] as Item
    }
  }

  /** The index of the first chunk that may have an item that is not before. */
  #chunkOf(isBefore: (item: Item) => boolean): number {
    let low = 0
    let high = this.#chunks.length - 1
    while (low < high) {
      const middle = (low + high) >>> 1
      const last = this.#chunks[middle]?.at(-1)
      if (last !== undefined && isBefore(last)) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** The index of the first item that is not before. */
export function placeIn<Item>(chunk: readonly Item[], isBefore: (item: Item) => boolean): number {
  let low = 0
  let high = chunk.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isBefore(chunk[middle] as Item)) low = middle + 1
    else high = middle
  }
  return low
}
