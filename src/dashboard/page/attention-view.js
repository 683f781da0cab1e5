/**
 * The first thing to read: what is wrong, and what to do.
 * @module
 */
import { lockAddress } from './address.js'
import { problemsOf } from './advice.js'
import { byId, element } from './element.js'

/** @typedef {import('../documents.ts').OverviewDocument} Overview */
/** @typedef {import('../documents.ts').CyclesDocument} Cycles */
/** @typedef {import('./advice.js').Problem} Problem */

const shownMax = 5

export class AttentionView {
  #read
  #list = byId('problems')
  #none = byId('no-problems')
  /** @type {Overview | undefined} */
  #worst
  /** @type {Cycles | undefined} */
  #found

  /** @param {() => Promise<Overview>} read the most contended locks */
  constructor(read) {
    this.#read = read
  }

  /** Never rejects. */
  async refresh() {
    try {
      this.#worst = await this.#read()
      this.#show()
    } catch {
      // The table says so.
    }
  }

  /** @param {Cycles} found */
  showCycles(found) {
    this.#found = found
    this.#show()
  }

  #show() {
    const problems = problemsOf(this.#worst?.rows ?? [], this.#found)
    this.#none.hidden = problems.length > 0 || this.#worst === undefined
    const hidden = problems.length - shownMax
    const more = hidden > 0 ? [element('li', { class: 'quiet' }, `and ${hidden} more, below`)] : []
    this.#list.replaceChildren(...problems.slice(0, shownMax).map(problemItem), ...more)
  }
}

/** @param {Problem} problem */
export function problemItem({ key, tone, name, says, todo }) {
  return element(
    'li',
    { 'data-tone': tone },
    element('a', { href: lockAddress(key), class: 'name' }, name),
    ' ',
    says,
    ' ',
    element('span', { class: 'todo' }, todo),
  )
}
