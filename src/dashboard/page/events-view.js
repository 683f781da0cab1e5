/**
 * The events, as they happen.
 * @module
 */
import { lockAddress } from './address.js'
import { byId, element } from './element.js'
import { counted, runnerName, timeText, visible, waitText } from './wording.js'

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
  add(change) {
    const { scope, namespace, key } = change
    const link = element('a', { href: lockAddress(key), title: visible(namespace), class: 'name' }, visible(scope))
    this.#prepend(changeItem(change, link))
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

/**
 * One change, for a list.
 * @param {Change} change
 * @param {Node} [subject] what it happened to, if the list does not say so
 */
export function changeItem({ kind, at, fence, runner, detail, waitedMs, takeover }, subject) {
  const { text, tone } = kinds[kind] ?? { text: kind, tone: 'plain' }
  const facts = [
    fence > 0 ? `fence ${fence}` : '',
    waitedMs === undefined || waitedMs < 1000 ? '' : `after ${waitText(waitedMs)}`,
    takeover === true ? 'a takeover' : '',
    detail === undefined ? '' : visible(detail),
  ].filter((fact) => fact !== '')
  return element(
    'li',
    { 'data-tone': tone },
    element('time', { datetime: at }, timeText(at)),
    element(
      'span',
      {},
      subject,
      ` ${text} ${runnerName(runner)}`,
      facts.length === 0 ? null : element('span', { class: 'quiet' }, ` ${facts.join(', ')}`),
    ),
  )
}
