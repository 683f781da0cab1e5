/**
 * Times that count on between two reads.
 * @module
 */
import { element } from './element.js'
import { durationText, leaseLeft } from './wording.js'

/** @typedef {import('./wording.js').Claim} Claim */
/** @typedef {import('../documents.ts').OperatorsLock} ReadLock */
/** @typedef {import('./wording.js').Lock} Lock */

const tickMs = 1000
/** @type {WeakMap<Element, () => void>} */
const painters = new WeakMap()

/** Repaints all live times, again and again. */
export function startLiveTimes() {
  setInterval(() => {
    for (const live of document.querySelectorAll('[data-live]')) painters.get(live)?.()
  }, tickMs)
}

/**
 * The lock with the time of the read, by this page's own clock: its ages count from there.
 * @param {ReadLock} lock
 * @returns {Lock}
 */
export function readNow(lock) {
  const readAt = performance.now()
  return { ...stamped(lock), waiters: lock.waiters.map((claim) => ({ ...claim, readAt })) }
}

/**
 * A row of the table with the time of the read.
 * @template {{ readonly holders: ReadLock['holders'] }} Row
 * @param {Row} row
 * @returns {Row & { readonly holders: readonly Claim[] }}
 */
export function stamped(row) {
  const readAt = performance.now()
  return { ...row, holders: row.holders.map((claim) => ({ ...claim, readAt })) }
}

/** How long something has lasted. */
export class Elapsed {
  element = element('span', { class: 'time', 'data-live': true })

  /**
   * @param {number} milliseconds
   * @param {number} [readAt] when it was that long
   */
  update(milliseconds, readAt = performance.now()) {
    const began = readAt - milliseconds
    paint(this.element, () => void (this.element.textContent = durationText(performance.now() - began)))
  }
}

/** The remaining time of a lease, as a bar and in words. */
export class LeaseBar {
  #fill = element('span', { class: 'fill' })
  #text = element('span', { class: 'time' })
  element = element('span', { class: 'lease', 'data-live': true }, this.#bar(), this.#text)

  #bar() {
    return element('span', { class: 'bar', 'aria-hidden': 'true' }, this.#fill)
  }

  /** @param {Pick<Claim, 'remainingMs' | 'ttlMs' | 'expired' | 'readAt'>} claim */
  update({ remainingMs, ttlMs, expired, readAt }) {
    paint(this.element, () => {
      const { part, text, tone } = leaseLeft({ remainingMs, ttlMs, expired }, performance.now() - readAt)
      this.#fill.style.width = `${Math.round(part * 100)}%`
      this.#text.textContent = text
      this.element.dataset['tone'] = tone
    })
  }
}

/**
 * @param {Element} live
 * @param {() => void} painter
 */
function paint(live, painter) {
  painters.set(live, painter)
  painter()
}
