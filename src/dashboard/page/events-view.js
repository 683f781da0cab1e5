/**
 * The events, as they happen.
 * @module
 */
import { byId, element } from './element.js'
import { counted, runnerName, timeText, visible } from './wording.js'

/** @typedef {import('../documents.ts').ChangeDocument} Change */

const shownMax = 200

/** @type {Readonly<Record<Change['kind'], { text: string, tone: import('./wording.js').Tone }>>} */
const kinds = {
  granted: { text: 'granted to', tone: 'good' },
  released: { text: 'released by', tone: 'plain' },
  lost: { text: 'lost by', tone: 'bad' },
  queued: { text: 'queued by', tone: 'warn' },
  left: { text: 'wait ended by', tone: 'plain' },
  leaving: { text: 'asked back from', tone: 'warn' },
}

export class EventsView {
  #list = byId('events')
  #none = byId('no-events')

  /** @param {Change} change */
  add({ kind, at, scope, namespace, fence, runner, detail }) {
    const { text, tone } = kinds[kind] ?? { text: kind, tone: 'plain' }
    this.#prepend(
      element(
        'li',
        { 'data-tone': tone },
        element('time', { datetime: at }, timeText(at)),
        element(
          'span',
          {},
          element('strong', { title: visible(namespace) }, visible(scope)),
          ` ${text} ${runnerName(runner)}`,
          fence > 0 ? element('span', { class: 'quiet' }, ` fence ${fence}`) : null,
          detail === undefined ? null : element('span', { class: 'quiet' }, ` (${visible(detail)})`),
        ),
      ),
    )
  }

  /**
   * So many changes happened at once that the server did not send all of them.
   * @param {number} count
   */
  addMore(count) {
    const now = new Date().toISOString()
    const text = `and ${counted(count, 'more change')}`
    this.#prepend(element('li', {}, element('time', { datetime: now }, timeText(now)), element('span', {}, text)))
  }

  /** @param {HTMLElement} item */
  #prepend(item) {
    this.#none.hidden = true
    this.#list.prepend(item)
    while (this.#list.childElementCount > shownMax) this.#list.lastElementChild?.remove()
  }
}
