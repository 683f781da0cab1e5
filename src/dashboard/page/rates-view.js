/**
 * How many events there were in the last minute.
 * @module
 */
import { byId } from './element.js'

/** @typedef {import('../documents.ts').RatesDocument} Rates */

const windowMs = 60_000
const tickMs = 1000
const names = /** @type {const} */ (['granted', 'renewed', 'queued', 'lost'])

export class RatesView {
  /** @type {{ readonly at: number, readonly rates: Rates }[]} */
  #seen = []
  /** Not every store counts renewals. */
  #countsRenewals = false

  constructor() {
    // Drop rates that are a minute old, also if no new ones arrive.
    setInterval(() => this.#show(), tickMs)
  }

  /** @param {Rates} rates */
  add(rates) {
    this.#seen.push({ at: performance.now(), rates })
    this.#countsRenewals ||= rates.renewed !== undefined
    this.#show()
  }

  #show() {
    const since = performance.now() - windowMs
    this.#seen = this.#seen.filter(({ at }) => at > since)
    for (const name of names) {
      const count = this.#seen.reduce((sum, { rates }) => sum + (rates[name] ?? 0), 0)
      byId(`rates-${name}`).textContent = name === 'renewed' && !this.#countsRenewals ? '–' : String(count)
    }
    const lost = this.#seen.some(({ rates }) => rates.lost > 0)
    byId('rates-lost').dataset['tone'] = lost ? 'bad' : 'plain'
  }
}
