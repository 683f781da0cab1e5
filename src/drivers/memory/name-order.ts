import type { ListQuery } from '../../core/contract/driver.ts'
import { SortedList } from '../../core/rule/sorted-list.ts'
import { inNextTurn } from '../../core/time/event-loop.ts'
import { pageLimit } from '../kit/paging.ts'

/** So many names are put in their places, or passed over, in one turn of the event loop: a few milliseconds. */
const namesPerTurn = 4096
/** So many names may wait to be put in their places; with more, the order is given up until the next list. */
const addedMax = 100_000

/**
 * The names of a store in order, so that a page does not read them all. Made by the first list; from then on new names are noted, and put
 * in their places by the next list. A name that is gone is found out when a list comes across it.
 */
export class NameOrder {
  readonly #sorted = new SortedList<string>(compareNames)
  readonly #added = new Set<string>()
  #sorting: Promise<void> | undefined

  /** Of names that may change while they are read. Who adds one calls `add`. */
  constructor(names: Iterable<string>) {
    this.#sorting = this.#sortAll(names)
  }

  /** False: so many names are new that this order is of no use any more. */
  add(name: string): boolean {
    this.#added.add(name)
    return this.#added.size <= addedMax
  }

  /** The first names that a page of this query may show, and one more, in order. `kept`: all names that are not gone. */
  async page(
    query: ListQuery,
    kept: { has(name: string): boolean },
    isListed: (name: string) => boolean,
  ): Promise<readonly string[]> {
    await this.#sorting
    await this.#sortAdded(kept)
    const { prefix = '', after = '' } = query
    const most = pageLimit(query) + 1
    const names: string[] = []
    let isBefore = (each: string): boolean => each < prefix || (after !== '' && each <= after)
    for (;;) {
      const gone: string[] = []
      let passed: string | undefined
      let steps = 0
      for (const name of this.#sorted.from(isBefore)) {
        if (names.length === most || !name.startsWith(prefix)) break
        if (isListed(name)) names.push(name)
        else if (!kept.has(name)) gone.push(name)
        steps += 1
        if (steps === namesPerTurn) {
          passed = name
          break
        }
      }
      for (const name of gone) this.#sorted.remove(name)
      if (passed === undefined) return names
      const last = passed
      isBefore = (each) => each <= last
      await nextTurn()
    }
  }

  async #sortAll(names: Iterable<string>): Promise<void> {
    let steps = 0
    for (const name of names) {
      // One that has gone and come again while this waited: the next step puts it in its place.
      if (!this.#added.has(name)) this.#sorted.add(name)
      steps += 1
      if (steps % namesPerTurn === 0) await nextTurn()
    }
    this.#sorting = undefined
  }

  async #sortAdded(kept: { has(name: string): boolean }): Promise<void> {
    let steps = 0
    for (const name of this.#added) {
      this.#added.delete(name)
      const [found] = this.#sorted.from((each) => each < name)
      if (found !== name && kept.has(name)) this.#sorted.add(name)
      steps += 1
      if (steps % namesPerTurn === 0) await nextTurn()
    }
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    inNextTurn(resolve)
  })
}

/** As `toSorted` has it. */
function compareNames(first: string, second: string): number {
  return first < second ? -1 : first > second ? 1 : 0
}
