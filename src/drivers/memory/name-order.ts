import type { ListQuery } from '../../core/contract/driver.ts'
import { SortedList } from '../../core/rule/sorted-list.ts'
import { pageLimit } from '../kit/paging.ts'

/** This many names, and a share of all, may come between two lists before sorting all anew is faster. */
const addedMin = 1000
const addedShare = 1 / 32

/**
 * The names of a store in order, so that a page does not read them all. Made by the first list; from then on new names are noted, and put
 * in their places by the next list. A name that is gone is found out when a list comes across it.
 */
export class NameOrder {
  readonly #sorted: SortedList<string>
  readonly #addedMax: number
  readonly #added = new Set<string>()

  constructor(names: Iterable<string>) {
    const sorted = [...names].toSorted()
    this.#sorted = SortedList.of(sorted, compareNames)
    this.#addedMax = addedMin + sorted.length * addedShare
  }

  /** False: so many names are new that this order is of no use any more. */
  add(name: string): boolean {
    this.#added.add(name)
    return this.#added.size <= this.#addedMax
  }

  /** The first names that a page of this query may show, and one more, in order. `kept`: all names that are not gone. */
  page(query: ListQuery, kept: { has(name: string): boolean }, isListed: (name: string) => boolean): readonly string[] {
    this.#sortAdded(kept)
    const { prefix = '', after = '' } = query
    const most = pageLimit(query) + 1
    const names: string[] = []
    const gone: string[] = []
    for (const name of this.#sorted.from((each) => each < prefix || (after !== '' && each <= after))) {
      if (names.length === most || !name.startsWith(prefix)) break
      if (isListed(name)) names.push(name)
      else if (!kept.has(name)) gone.push(name)
    }
    for (const name of gone) this.#sorted.remove(name)
    return names
  }

  #sortAdded(kept: { has(name: string): boolean }): void {
    for (const name of this.#added) {
      const [found] = this.#sorted.from((each) => each < name)
      if (found !== name && kept.has(name)) this.#sorted.add(name)
    }
    this.#added.clear()
  }
}

/** As `toSorted` has it. */
function compareNames(first: string, second: string): number {
  return first < second ? -1 : first > second ? 1 : 0
}
