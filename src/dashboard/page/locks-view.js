/**
 * The table of locks: search, filters, pages, and rows that open.
 * @module
 */
import { byId, element } from './element.js'
import { KeyedChildren } from './keyed-children.js'
import { Elapsed, LeaseBar, readNow } from './live-times.js'
import { LockDetails } from './lock-details.js'
import { lockState, runnerName, runnerPlace, visible } from './wording.js'

/** @typedef {import('./wording.js').Lock} Lock */
/** @typedef {import('./lock-details.js').Evict} Evict */
/** @typedef {(query: Readonly<Record<string, string>>) => Promise<import('../documents.ts').OperatorsLockPage>} Read */

const locksPerPage = 100
/** A search waits until the typing pauses. */
const typingMs = 250

export class LocksView {
  #read
  #form = /** @type {HTMLFormElement} */ (byId('filters'))
  #namespaces = byId('namespaces')
  #note = byId('locks-note')
  #previous = /** @type {HTMLButtonElement} */ (byId('previous-page'))
  #next = /** @type {HTMLButtonElement} */ (byId('next-page'))
  /** @type {KeyedChildren<Lock>} */
  #rows
  /** Where the pages up to this one begin; the last entry is this page. @type {(string | undefined)[]} */
  #places = [undefined]
  /** @type {string | undefined} */
  #nextPlace
  /** @type {Set<string>} */
  #seen = new Set()
  #asked = 0

  /**
   * @param {Read} read
   * @param {Evict | undefined} evict
   */
  constructor(read, evict) {
    this.#read = read
    this.#rows = new KeyedChildren(
      byId('locks'),
      ({ key }) => key,
      (lock) => new LockRow(lock, evict),
    )
    let typing = 0
    this.#form.addEventListener('input', () => {
      clearTimeout(typing)
      typing = window.setTimeout(() => this.#goTo([undefined]), typingMs)
    })
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault()
      this.#goTo([undefined])
    })
    this.#next.addEventListener('click', () => this.#goTo([...this.#places, this.#nextPlace]))
    this.#previous.addEventListener('click', () => this.#goTo(this.#places.slice(0, -1)))
  }

  /** Reads the shown page again. Never rejects. */
  async refresh() {
    this.#asked += 1
    const asked = this.#asked
    try {
      const page = await this.#read(this.#query())
      // Answers may arrive out of order: an older one must not replace a newer one.
      if (asked === this.#asked) this.#show(page)
    } catch (error) {
      if (asked === this.#asked) this.#note.textContent = error instanceof Error ? error.message : String(error)
    }
  }

  /** @param {(string | undefined)[]} places */
  #goTo(places) {
    this.#places = places
    void this.refresh()
  }

  #query() {
    const fields = [...new FormData(this.#form)].map(([name, value]) => [
      name,
      typeof value === 'string' ? value.trim() : '',
    ])
    const after = this.#places.at(-1)
    return {
      ...Object.fromEntries(fields.filter(([, value]) => value !== '')),
      limit: String(locksPerPage),
      ...(after !== undefined && { after }),
    }
  }

  /** @param {import('../documents.ts').OperatorsLockPage} page */
  #show({ locks, next }) {
    this.#nextPlace = next
    this.#rows.show(locks.map(readNow))
    this.#previous.hidden = this.#places.length < 2
    this.#next.hidden = next === undefined
    this.#note.textContent = this.#noteFor(locks.length, next !== undefined)
    for (const { namespace } of locks) {
      if (this.#seen.has(namespace) || this.#seen.size > 200) continue
      this.#seen.add(namespace)
      this.#namespaces.append(element('option', { value: namespace }))
    }
  }

  /**
   * @param {number} count
   * @param {boolean} isMore
   */
  #noteFor(count, isMore) {
    const part = this.#places.length > 1 || isMore ? `Page ${this.#places.length}. ` : ''
    if (count > 0) return part
    if (isMore) return `${part}No matches on this page. Try the next page.`
    const { limit: _, after: __, ...filters } = this.#query()
    return Object.keys(filters).length > 0 ? 'No matches' : 'No locks are held or waited for.'
  }
}

/** One lock: a row, and the details that it opens. */
class LockRow {
  #evict
  #toggle = element('button', { type: 'button', class: 'toggle', 'aria-expanded': 'false' })
  #name = element('span', { class: 'name' })
  #namespace = element('span', { class: 'namespace' })
  #state = element('span', { class: 'badge' })
  #holder = element('span', { class: 'holder' })
  #place = element('span', { class: 'quiet' })
  #held = new Elapsed()
  #lease = new LeaseBar()
  #waiting = element('span')
  #inside = element('td', { colspan: 6 })
  #below = element('tr', { class: 'below', hidden: true }, this.#inside)
  /** @type {LockDetails | undefined} */
  #details
  /** @type {Lock} */
  #lock
  element

  /**
   * @param {Lock} lock
   * @param {Evict | undefined} evict
   */
  constructor(lock, evict) {
    this.#lock = lock
    this.#evict = evict
    this.#toggle.append(this.#name)
    this.#toggle.addEventListener('click', () => this.#open(this.#below.hidden !== false))
    this.element = element(
      'tbody',
      {},
      element(
        'tr',
        { class: 'lock' },
        element('th', { scope: 'row' }, this.#toggle, this.#namespace),
        cell('State', this.#state),
        cell('Holder', this.#holder, this.#place),
        cell('Held for', this.#held.element),
        cell('Lease', this.#lease.element),
        cell('Waiting', this.#waiting),
      ),
      this.#below,
    )
  }

  /** @param {Lock} lock */
  update(lock) {
    this.#lock = lock
    const { scope, namespace, holders, waiting } = lock
    const [first] = holders
    this.#name.textContent = visible(scope)
    this.#namespace.textContent = visible(namespace)
    const { text, tone } = lockState(lock)
    this.#state.textContent = text
    this.#state.dataset['tone'] = tone
    this.#holder.textContent = first === undefined ? '' : runnerName(first.runner)
    this.#place.textContent = first === undefined ? '' : placeText(lock)
    this.#held.element.hidden = first === undefined
    this.#lease.element.hidden = first === undefined
    if (first !== undefined) {
      this.#held.update(first.sinceMs, first.readAt)
      this.#lease.update(first)
    }
    this.#waiting.textContent = waiting === 0 ? '' : String(waiting)
    this.#waiting.className = waiting === 0 ? '' : 'count'
    if (!this.#below.hidden) this.#details?.update(lock)
  }

  /** @param {boolean} isOpen */
  #open(isOpen) {
    this.#toggle.setAttribute('aria-expanded', String(isOpen))
    this.#below.hidden = !isOpen
    if (!isOpen) return
    if (this.#details === undefined) {
      this.#details = new LockDetails(this.#lock, this.#evict)
      this.#inside.append(this.#details.element)
    } else this.#details.update(this.#lock)
  }
}

/** @param {Lock} lock */
function placeText({ holders, held }) {
  const [first] = holders
  const place = first === undefined ? '' : runnerPlace(first.runner)
  return held > 1 ? `${place}, and ${held - 1} more` : place
}

/**
 * @param {string} label shown where the table becomes a list
 * @param {...Node} children
 */
function cell(label, ...children) {
  return element('td', { 'data-label': label }, ...children)
}
