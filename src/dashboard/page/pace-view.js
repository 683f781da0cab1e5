/**
 * How much has happened in the last minute.
 * @module
 */
import { byId } from './element.js'

/** @typedef {import('../documents.ts').PaceDocument} Pace */

const windowMs = 60_000
const tickMs = 1000
const names = /** @type {const} */ (['granted', 'renewed', 'queued', 'lost'])

export class PaceView {
  /** @type {{ readonly at: number, readonly pace: Pace }[]} */
  #seen = []
  /** Not every store counts renewals. */
  #countsRenewals = false

  constructor() {
    // What is a minute old goes by itself.
    setInterval(() => this.#show(), tickMs)
  }

  /** @param {Pace} pace */
  add(pace) {
    this.#seen.push({ at: performance.now(), pace })
    this.#countsRenewals ||= pace.renewed !== undefined
    this.#show()
  }

  #show() {
    const since = performance.now() - windowMs
    this.#seen = this.#seen.filter(({ at }) => at > since)
    for (const name of names) {
      const count = this.#seen.reduce((sum, { pace }) => sum + (pace[name] ?? 0), 0)
      byId(`pace-${name}`).textContent = name === 'renewed' && !this.#countsRenewals ? '–' : String(count)
    }
    const lost = this.#seen.some(({ pace }) => pace.lost > 0)
    byId('pace-lost').dataset['tone'] = lost ? 'bad' : 'plain'
  }
}
