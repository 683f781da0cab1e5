import type { Labels } from '../exposition.ts'

/** Nothing but the labels that all have. */
export const noLabels: Labels = Object.freeze({})

/** One tally for each set of labels. */
export class Series<Tally> {
  readonly #common: Labels
  readonly #start: () => Tally
  readonly #tallies = new Map<string, { readonly labels: Labels; readonly tally: Tally }>()
  #plain: Tally | undefined

  constructor(common: Labels, start: () => Tally) {
    this.#common = common
    this.#start = start
  }

  /** The tally of these labels besides the common ones. It is published from now on. */
  of(labels: Labels): Tally {
    if (labels !== noLabels) return this.#find(labels)
    this.#plain ??= this.#find(labels)
    return this.#plain
  }

  /** What `publish` makes of each tally, with all its labels. */
  map<Published>(publish: (tally: Tally, labels: Labels) => Published): Published[] {
    return [...this.#tallies.values()].map(({ labels, tally }) => publish(tally, labels))
  }

  #find(labels: Labels): Tally {
    // In whatever order they are given, they are the same labels.
    const sorted = Object.entries(labels).toSorted(([one], [other]) => (one < other ? -1 : 1))
    const id = JSON.stringify(sorted)
    const known = this.#tallies.get(id)
    if (known !== undefined) return known.tally
    const tally = this.#start()
    this.#tallies.set(id, { labels: { ...this.#common, ...Object.fromEntries(sorted) }, tally })
    return tally
  }
}
