/**
 * The evictions: by whom, of which holder, and why.
 * @module
 */
import { byId, element } from './element.js'
import { runnerName, runnerPlace, timeText, visible } from './wording.js'

/** @typedef {import('../documents.ts').AuditEntry} AuditEntry */

/** @type {Readonly<Record<AuditEntry['result'], { text: string, tone: import('./wording.js').Tone }>>} */
export const results = {
  evicted: { text: 'evicted', tone: 'good' },
  'not-held': { text: 'no longer held it', tone: 'plain' },
  unknown: { text: 'unknown: the store did not answer', tone: 'bad' },
}

export class AuditView {
  #rows = byId('audit-rows')
  #note = byId('audit-note')
  #read

  /** @param {() => Promise<{ readonly evictions: readonly AuditEntry[] }>} read */
  constructor(read) {
    this.#read = read
  }

  /** Never rejects. */
  async refresh() {
    try {
      const { evictions } = await this.#read()
      this.#rows.replaceChildren(...evictions.map(auditRow))
      this.#note.textContent = evictions.length === 0 ? 'No evictions since the server started.' : ''
    } catch (error) {
      this.#note.textContent = error instanceof Error ? error.message : String(error)
    }
  }
}

/** @param {AuditEntry} entry */
function auditRow({ at, by, scope, namespace, fence, runner, reason, result }) {
  const { text, tone } = results[result] ?? { text: result, tone: 'plain' }
  return element(
    'tr',
    {},
    element('td', { 'data-label': 'When' }, element('time', { datetime: at }, timeText(at))),
    element('td', { 'data-label': 'By' }, visible(by)),
    element(
      'th',
      { scope: 'row' },
      element('span', { class: 'name' }, visible(scope)),
      element('span', { class: 'namespace' }, visible(namespace)),
    ),
    element(
      'td',
      { 'data-label': 'From' },
      element('span', { class: 'holder' }, runner === undefined ? 'unknown' : runnerName(runner)),
      element('span', { class: 'quiet' }, runner === undefined ? '' : runnerPlace(runner), ` fence ${fence}`),
    ),
    element('td', { 'data-label': 'Reason' }, visible(reason)),
    element('td', { 'data-label': 'Result' }, element('span', { class: 'badge', 'data-tone': tone }, text)),
  )
}
