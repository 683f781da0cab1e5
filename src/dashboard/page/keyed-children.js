/**
 * Keeps the children of an element in step with a list. A child stays the same element while its item has the same key, so that
 * what is open stays open and the focus stays where it is.
 * @template Item
 */
export class KeyedChildren {
  #parent
  #keyOf
  #make
  /** @type {Map<string, { element: Element, update(item: Item): void }>} */
  #children = new Map()

  /**
   * @param {Element} parent
   * @param {(item: Item) => string} keyOf
   * @param {(item: Item) => { element: Element, update(item: Item): void }} make update is called once for a new child, too
   */
  constructor(parent, keyOf, make) {
    this.#parent = parent
    this.#keyOf = keyOf
    this.#make = make
  }

  /** @param {readonly Item[]} items */
  show(items) {
    const before = this.#children
    const keyed = withDistinctKeys(items, this.#keyOf)
    const wanted = new Set(keyed.map(({ key }) => key))
    this.#children = new Map()
    // Remove first, so that the others need not move: an element that is moved loses the focus.
    for (const [key, { element }] of before) if (!wanted.has(key)) element.remove()
    /** @type {Element | null} */
    let place = this.#parent.querySelector(':scope > [data-keyed]')
    for (const { key, item } of keyed) {
      const child = before.get(key) ?? this.#make(item)
      this.#children.set(key, child)
      child.element.toggleAttribute('data-keyed', true)
      child.update(item)
      if (child.element === place) place = place.nextElementSibling
      else this.#parent.insertBefore(child.element, place)
    }
  }
}

/**
 * The items with their keys. Items may share a key, such as the claims that a process made in one millisecond: from the second on,
 * their keys are numbered, so that each is shown.
 * @template Item
 * @param {readonly Item[]} items
 * @param {(item: Item) => string} keyOf
 * @returns {{ key: string, item: Item }[]}
 */
export function withDistinctKeys(items, keyOf) {
  /** @type {Map<string, number>} */
  const seen = new Map()
  return items.map((item) => {
    const key = keyOf(item)
    const earlier = seen.get(key) ?? 0
    seen.set(key, earlier + 1)
    return { key: JSON.stringify([key, earlier]), item }
  })
}
