/**
 * The page of one lock: what is wrong and what to do, its holders, its queue, and what happened to it.
 * @module
 */
import { problemOf } from './advice.js'
import { problemItem } from './attention-view.js'
import { byId } from './element.js'
import { changeItem } from './events-view.js'
import { readNow } from './live-times.js'
import { LockDetails } from './lock-details.js'
import { lockState, visible } from './wording.js'

/** @typedef {import('../documents.ts').LockPageDocument} LockPage */
/** @typedef {import('./lock-details.js').Evict} Evict */

export class LockView {
  #read
  #evict
  #title = byId('lock-title')
  #place = byId('lock-namespace')
  #state = byId('lock-state')
  #problem = byId('lock-problem')
  #inside = byId('lock-inside')
  #history = byId('lock-history')
  #note = byId('lock-note')
  #key = ''
  /** @type {LockDetails | undefined} */
  #details

  /**
   * @param {(key: string) => Promise<LockPage>} read
   * @param {Evict | undefined} evict undefined: the token may not
   */
  constructor(read, evict) {
    this.#read = read
    this.#evict = evict
  }

  /**
   * Never rejects.
   * @param {string} key
   */
  async refresh(key) {
    if (key !== this.#key) this.#clear(key)
    try {
      const page = await this.#read(key)
      if (key === this.#key) this.#show(page)
    } catch (error) {
      if (key === this.#key) this.#note.textContent = error instanceof Error ? error.message : String(error)
    }
  }

  /** @param {string} key */
  #clear(key) {
    this.#key = key
    this.#details = undefined
    this.#title.textContent = visible(key)
    this.#place.textContent = ''
    this.#state.textContent = ''
    this.#problem.replaceChildren()
    this.#inside.replaceChildren()
    this.#history.replaceChildren()
    this.#note.textContent = ''
  }

  /** @param {LockPage} page */
  #show({ lock: read, history }) {
    const lock = readNow(read)
    this.#title.textContent = visible(lock.scope)
    this.#place.textContent = visible(lock.namespace)
    const { text, tone } = lockState(lock)
    this.#state.textContent = text
    this.#state.dataset['tone'] = tone
    const longestWaitMs = Math.max(0, ...lock.waiters.map(({ sinceMs }) => sinceMs))
    const problem = problemOf({ ...lock, longestWaitMs })
    this.#problem.replaceChildren(...(problem === undefined ? [] : [problemItem(problem)]))
    if (this.#details === undefined) {
      this.#details = new LockDetails(lock, this.#evict)
      this.#inside.replaceChildren(this.#details.element)
    } else this.#details.update(lock)
    this.#history.replaceChildren(...history.map((change) => changeItem(change)))
    this.#note.textContent = history.length === 0 ? 'Nothing was seen of it in the last hour.' : ''
  }
}

/** The heading, for those who came by keyboard. */
export function focusLock() {
  byId('lock-title').focus()
}
