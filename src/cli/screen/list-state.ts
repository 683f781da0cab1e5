import { compareRows, sortWords, type InspectedLock, type SortWord } from '../inspect/lock-rows.ts'

/** What the user of the live view has chosen: sorting, filter, and a row. */
export class ListState {
  sort: SortWord
  filter = ''
  #selected: string | undefined
  #index = 0
  #first = 0
  #rows: readonly InspectedLock[] = []
  #shown: readonly InspectedLock[] = []

  constructor(sort: SortWord) {
    this.sort = sort
  }

  set rows(rows: readonly InspectedLock[]) {
    this.#rows = rows
    this.#arrange()
  }

  /** The rows that match, sorted. */
  get shown(): readonly InspectedLock[] {
    return this.#shown
  }

  get selected(): InspectedLock | undefined {
    return this.#shown[this.#index]
  }

  nextSort(): void {
    this.sort = sortWords[(sortWords.indexOf(this.sort) + 1) % sortWords.length] ?? 'name'
    this.#arrange()
  }

  setFilter(text: string): void {
    this.filter = text
    this.#arrange()
  }

  /** Selects the row so many further down, or the nearest there is. */
  move(by: number): void {
    this.#index = Math.max(0, Math.min(this.#shown.length - 1, this.#index + by))
    this.#selected = this.selected && idOf(this.selected)
  }

  /** The rows that fit, with the selected one among them, and its place there. */
  page(height: number): { readonly rows: readonly InspectedLock[]; readonly selected: number; readonly first: number } {
    const lastFirst = Math.max(0, this.#shown.length - height)
    this.#first = Math.max(this.#index - height + 1, Math.min(this.#first, this.#index, lastFirst))
    const rows = this.#shown.slice(this.#first, this.#first + height)
    return { rows, selected: this.#index - this.#first, first: this.#first }
  }

  /** The selected lock stays selected wherever it moves to. */
  #arrange(): void {
    const letters = this.filter.toLowerCase()
    const matching = this.#rows.filter(({ name }) => letters === '' || name.toLowerCase().includes(letters))
    this.#shown = matching.toSorted(compareRows(this.sort))
    const found = this.#shown.findIndex((row) => idOf(row) === this.#selected)
    this.#index = found >= 0 ? found : Math.max(0, Math.min(this.#index, this.#shown.length - 1))
  }
}

function idOf({ namespace, kind, name, holder }: InspectedLock): string {
  return `${namespace}/${kind}:${name} ${holder?.fence ?? ''}`
}
