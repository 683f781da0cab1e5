/**
 * The table of locks: search, filters, order, and as many rows as there are.
 * @module
 */
import { goTo, lockAddress, place, replacePlace } from './address.js'
import { byId, element } from './element.js'
import { Elapsed, LeaseBar, stamped } from './live-times.js'
import { VirtualRows } from './virtual-rows.js'
import { counted, durationText, lockState, runnerName, runnerPlace, visible } from './wording.js'

/** @typedef {import('../documents.ts').LockRow} Row */
/** @typedef {Row & { readonly holders: readonly import('./wording.js').Claim[] }} ReadRow by the page's own clock */
/** @typedef {import('../documents.ts').OverviewDocument} Overview */
/** @typedef {(query: Readonly<Record<string, string>>) => Promise<Overview>} Read */

/** A search waits until the typing pauses. */
const typingMs = 250
const filterNames = /** @type {const} */ (['name', 'namespace', 'service', 'state', 'sort', 'order'])

export class LocksView {
  #read
  #form = /** @type {HTMLFormElement} */ (byId('filters'))
  #note = byId('locks-note')
  #table = byId('locks')
  /** @type {VirtualRows<ReadRow>} */
  #rows
  #asked = 0
  #typing = 0

  /** @param {Read} read */
  constructor(read) {
    this.#read = read
    this.#rows = new VirtualRows(byId('lock-rows'), {
      keyOf: ({ key }) => key,
      make: () => new LockRow(),
      changed: () => void this.refresh(),
    })
    this.#form.addEventListener('input', (event) => {
      clearTimeout(this.#typing)
      if (event.target instanceof HTMLSelectElement) this.#search()
      else this.#typing = window.setTimeout(() => this.#search(), typingMs)
    })
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault()
      this.#search()
    })
    for (const button of this.#table.querySelectorAll('button[data-sort]')) {
      button.addEventListener('click', () => this.#sortBy(button.getAttribute('data-sort') ?? ''))
    }
    byId('lock-rows').addEventListener('keydown', (event) => this.#onKey(event))
    this.showPlace()
  }

  /** Takes the filters from the address. */
  showPlace() {
    const fields = place()
    for (const name of filterNames) this.#field(name).value = fields[name] ?? ''
    this.#rows.clear()
    for (const button of this.#table.querySelectorAll('button[data-sort]')) {
      const isSorted = button.getAttribute('data-sort') === fields['sort']
      const heading = button.parentElement
      if (!isSorted) heading?.removeAttribute('aria-sort')
      else heading?.setAttribute('aria-sort', isAscending(fields) ? 'ascending' : 'descending')
    }
  }

  /** Reads the rows in the window again. Never rejects. */
  async refresh() {
    this.#asked += 1
    const asked = this.#asked
    try {
      const { from, count } = this.#rows.window
      const overview = await this.#read({ ...this.#query(), from: String(from), limit: String(count) })
      // Answers may arrive out of order: an older one must not replace a newer one.
      if (asked === this.#asked) this.#show(overview)
    } catch (error) {
      if (asked === this.#asked) this.#note.textContent = error instanceof Error ? error.message : String(error)
    }
  }

  /** @param {Overview} overview */
  #show({ total, from, rows, namespaces, services, truncated }) {
    this.#rows.set(total, from, rows.map(stamped))
    this.#table.setAttribute('aria-rowcount', String(total + 1))
    const isFiltered = filterNames.slice(0, 4).some((name) => this.#field(name).value.trim() !== '')
    const none = isFiltered ? 'No matches' : 'No locks are held or waited for.'
    const more = truncated ? ' There are more than can be sorted: choose a namespace.' : ''
    this.#note.textContent =
      (total === 0 ? none : counted(total, isFiltered ? 'match' : 'lock', isFiltered ? 'matches' : 'locks')) + more
    offer('namespaces', namespaces)
    offer('services', services)
  }

  #search() {
    const { tab = '' } = place()
    replacePlace({ tab, ...Object.fromEntries(filterNames.map((name) => [name, this.#field(name).value.trim()])) })
    this.showPlace()
    void this.refresh()
  }

  /** @param {string} sort the same again turns the order round */
  #sortBy(sort) {
    const isAgain = this.#field('sort').value === sort
    this.#field('order').value = isAgain && this.#field('order').value === '' ? 'last' : ''
    this.#field('sort').value = sort
    this.#search()
  }

  #query() {
    const fields = filterNames.map((name) => [name, this.#field(name).value.trim()])
    return /** @type {Readonly<Record<string, string>>} */ (
      Object.fromEntries(fields.filter(([, value]) => value !== ''))
    )
  }

  /** @param {string} name */
  #field(name) {
    return /** @type {HTMLInputElement} */ (this.#form.elements.namedItem(name))
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key]
    const row = event.target instanceof Element ? event.target.closest('[role=row]') : null
    if (steps === undefined || row === null) return
    event.preventDefault()
    this.#rows.moveFocus(Number(row.getAttribute('aria-rowindex')) - 2, steps)
  }
}

/** @param {Readonly<Record<string, string>>} fields */
function isAscending({ sort, order }) {
  return (sort === 'name') === (order !== 'last')
}

/**
 * @param {string} id
 * @param {readonly string[]} values
 */
function offer(id, values) {
  const list = byId(id)
  const text = JSON.stringify(values)
  if (list.dataset['values'] === text) return
  list.dataset['values'] = text
  list.replaceChildren(...values.map((value) => element('option', { value })))
}

/** One lock in the table. */
class LockRow {
  #name = element('a', { class: 'name' })
  #namespace = element('span', { class: 'namespace' })
  #state = element('span', { class: 'badge' })
  #holder = element('span', { class: 'holder' })
  #place = element('span', { class: 'quiet' })
  #service = element('span', { class: 'service' })
  #held = new Elapsed()
  #lease = new LeaseBar()
  #waiting = element('span')
  #longest = element('span', { class: 'quiet' })
  element = element(
    'div',
    { role: 'row', class: 'lock' },
    cell('rowheader', 'lock-name', this.#name, this.#namespace),
    cell('cell', 'lock-state', this.#state),
    cell('cell', 'lock-holder', this.#holder, this.#place),
    cell('cell', 'lock-service', this.#service),
    cell('cell', 'lock-held', this.#held.element),
    cell('cell', 'lock-lease', this.#lease.element),
    cell('cell', 'lock-queue', this.#waiting, this.#longest),
  )

  constructor() {
    // The whole row is the link.
    this.element.addEventListener('click', (event) => {
      const isLink = event.target instanceof Element && event.target.closest('a') !== null
      if (!isLink && String(getSelection()) === '') goTo({ lock: this.element.dataset['key'] ?? '' })
    })
  }

  /**
   * @param {ReadRow} row
   * @param {number} index
   */
  update(row, index) {
    const { key, scope, namespace, holders, waiting, services, longestWaitMs } = row
    const [first] = holders
    this.element.setAttribute('aria-rowindex', String(index + 2))
    this.element.dataset['key'] = key
    this.#name.textContent = visible(scope)
    this.#name.title = visible(scope)
    this.#name.href = lockAddress(key)
    this.#namespace.textContent = visible(namespace)
    const { text, tone } = lockState(row)
    this.#state.textContent = text
    this.#state.dataset['tone'] = tone
    this.#holder.textContent = first === undefined ? '' : runnerName(first.runner)
    this.#place.textContent = first === undefined ? '' : placeText(row)
    this.#service.textContent = services.map(visible).join(', ')
    this.#held.element.hidden = first === undefined
    this.#lease.element.hidden = first === undefined
    if (first !== undefined) {
      this.#held.update(first.sinceMs, first.readAt)
      this.#lease.update(first)
    }
    this.#waiting.textContent = waiting === 0 ? '' : `${waiting} queued`
    this.#waiting.className = waiting === 0 ? '' : 'count'
    this.#longest.textContent = waiting === 0 ? '' : `longest ${durationText(longestWaitMs)}`
  }
}

/** @param {Pick<Row, 'holders' | 'held'>} row */
function placeText({ holders, held }) {
  const [first] = holders
  const where = first === undefined ? '' : runnerPlace(first.runner)
  return held > 1 ? `${where}, and ${held - 1} more` : where
}

/**
 * @param {string} role
 * @param {string} name
 * @param {...Node} children
 */
function cell(role, name, ...children) {
  return element('div', { role, class: name }, ...children)
}
