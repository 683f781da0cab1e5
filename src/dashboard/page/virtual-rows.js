/**
 * A list of any length of which only the rows near the window are in the page. Rows have one height; a row stays the same element while its
 * key does, so that the focus follows a row that moves.
 * @template Item
 */
export class VirtualRows {
  #body
  #keyOf
  #make
  #changed
  #total = 0
  /** The place that gets the focus once its row has been read. @type {number | undefined} */
  #awaited
  /** By place. @type {Map<number, Item>} */
  #items = new Map()
  /** @type {Map<string, { element: HTMLElement, update(item: Item, index: number): void }>} */
  #rows = new Map()
  #frame = 0

  /**
   * @param {HTMLElement} body
   * @param {object} options
   * @param {(item: Item) => string} options.keyOf
   * @param {(item: Item) => { element: HTMLElement, update(item: Item, index: number): void }} options.make
   * @param {() => void} options.changed called when rows are in the window that have not been set
   */
  constructor(body, { keyOf, make, changed }) {
    this.#body = body
    this.#keyOf = keyOf
    this.#make = make
    this.#changed = changed
    const soon = () => {
      cancelAnimationFrame(this.#frame)
      this.#frame = requestAnimationFrame(() => this.#scrolled())
    }
    window.addEventListener('scroll', soon, { passive: true })
    window.addEventListener('resize', soon)
    // Whoever goes elsewhere meanwhile is left there.
    window.addEventListener('focusin', ({ target }) => {
      if (!(target instanceof Node && body.contains(target))) this.#awaited = undefined
    })
  }

  /** The places that are in the window, and some around them. */
  get window() {
    const height = this.#rowHeight
    const above = Math.max(0, -this.#body.getBoundingClientRect().top)
    const first = Math.max(0, Math.floor(above / height) - aroundMax)
    return { from: first, count: Math.ceil(window.innerHeight / height) + 2 * aroundMax }
  }

  /** Forgets all rows, as another query is shown. */
  clear() {
    this.#items.clear()
    this.#awaited = undefined
  }

  /**
   * @param {number} total
   * @param {number} from
   * @param {readonly Item[]} items those from this place on
   */
  set(total, from, items) {
    this.#total = total
    for (const place of this.#items.keys()) {
      const isNear = Math.abs(place - from) < keptAround
      if (place >= total || !isNear) this.#items.delete(place)
    }
    for (const [index, item] of items.entries()) this.#items.set(from + index, item)
    this.#render()
    if (this.#awaited !== undefined) this.#focusAt(this.#awaited)
  }

  /**
   * Moves the focus so many rows on from a row. Where rows have yet to be read, keys that are pressed meanwhile count, too.
   * @param {number} index
   * @param {number} steps
   */
  moveFocus(index, steps) {
    const next = (this.#awaited ?? index) + steps
    if (next < 0 || next >= this.#total) return
    this.#focusAt(next)
  }

  /**
   * Scrolls to a row and gives it the focus, as soon as it is there.
   * @param {number} index
   */
  #focusAt(index) {
    const height = this.#rowHeight
    const top = this.#body.getBoundingClientRect().top + index * height
    if (top < 2 * height) window.scrollBy(0, top - 2 * height)
    else if (top + 2 * height > window.innerHeight) window.scrollBy(0, top + 2 * height - window.innerHeight)
    this.#scrolled()
    const item = this.#items.get(index)
    this.#awaited = item === undefined && index < this.#total ? index : undefined
    if (item === undefined) return
    const row = this.#rows.get(this.#keyOf(item))
    row?.element.querySelector('a')?.focus({ preventScroll: true })
  }

  get #rowHeight() {
    const style = getComputedStyle(this.#body)
    return (
      parseFloat(style.getPropertyValue('--row-height')) *
      parseFloat(getComputedStyle(document.documentElement).fontSize)
    )
  }

  #scrolled() {
    // Hidden: another view is shown.
    if (this.#body.offsetParent === null) return
    this.#render()
    const { from, count } = this.window
    const last = Math.min(this.#total, from + count)
    for (let place = from; place < last; place += 1) if (!this.#items.has(place)) return this.#changed()
  }

  #render() {
    const height = this.#rowHeight
    this.#body.style.height = `${this.#total * height}px`
    const { from, count } = this.window
    const before = this.#rows
    this.#rows = new Map()
    for (let place = from; place < Math.min(this.#total, from + count); place += 1) {
      const item = this.#items.get(place)
      if (item === undefined) continue
      const key = this.#keyOf(item)
      // A lock that has moved may still be at its old place, too.
      if (this.#rows.has(key)) continue
      const row = before.get(key) ?? this.#make(item)
      before.delete(key)
      this.#rows.set(key, row)
      row.update(item, place)
      row.element.style.transform = `translateY(${place * height}px)`
      if (!row.element.isConnected) this.#body.append(row.element)
    }
    for (const [key, row] of before) {
      if (row.element.contains(document.activeElement) && this.#total > 0) this.#rows.set(key, row)
      else row.element.remove()
    }
  }
}

/** Rows above and below the window that are in the page already. */
const aroundMax = 20
/** Rows further away are forgotten: they are read again when they are scrolled to. */
const keptAround = 400
