/**
 * Asks twice before a lock is taken from a holder that may be writing.
 * @module
 */
import { results } from './audit-view.js'
import { byId, element } from './element.js'
import { Elapsed } from './live-times.js'
import { runnerName, runnerPlace, visible } from './wording.js'

/** @typedef {import('./wording.js').Lock} Lock */
/** @typedef {import('./wording.js').Claim} Claim */
/** @typedef {import('../documents.ts').AuditEntry} AuditEntry */
/** @typedef {(eviction: { key: string, fence: number, reason: string }) => Promise<AuditEntry>} Send */

export class EvictDialog {
  #send
  #done
  #dialog = /** @type {HTMLDialogElement} */ (byId('evict'))
  #form = /** @type {HTMLFormElement} */ (byId('evict-form'))
  #holder = byId('evict-who')
  #name = byId('evict-name')
  #reason = /** @type {HTMLInputElement} */ (byId('evict-reason'))
  #typed = /** @type {HTMLInputElement} */ (byId('evict-typed'))
  #confirm = /** @type {HTMLButtonElement} */ (byId('evict-confirm'))
  #cancel = byId('evict-cancel')
  #result = byId('evict-result')
  /** @type {{ lock: Lock, claim: Claim } | undefined} */
  #target

  /**
   * @param {Send} send
   * @param {() => void} done called when something may have changed
   */
  constructor(send, done) {
    this.#send = send
    this.#done = done
    this.#cancel.addEventListener('click', () => this.#dialog.close())
    this.#form.addEventListener('input', () => this.#check())
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault()
      if (!this.#confirm.disabled) void this.#evict()
    })
  }

  /**
   * @param {Lock} lock
   * @param {Claim} claim
   */
  open(lock, claim) {
    this.#target = { lock, claim }
    const since = new Elapsed()
    since.update(claim.sinceMs, claim.readAt)
    this.#holder.replaceChildren(
      ...line('Lock', visible(lock.scope)),
      ...line('Namespace', visible(lock.namespace)),
      ...line('Holder', runnerName(claim.runner)),
      ...line('Where', runnerPlace(claim.runner)),
      ...line('Runner', visible(claim.runner.id)),
      ...line('Fence', String(claim.fence)),
      ...line('Held for', since.element),
      ...(claim.range === undefined ? [] : line('Bytes', `${claim.range.start} to ${claim.range.end}`)),
    )
    this.#name.textContent = visible(lock.scope)
    this.#form.reset()
    this.#cancel.textContent = 'Cancel'
    this.#confirm.hidden = false
    this.#reason.disabled = this.#typed.disabled = false
    this.#say('', 'plain')
    this.#check()
    this.#dialog.showModal()
    this.#reason.focus()
  }

  /** Allows the eviction once a reason and the lock's name, as it is shown, have been typed. */
  #check() {
    const name = visible(this.#target?.lock.scope ?? '')
    this.#confirm.disabled = this.#reason.value.trim() === '' || this.#typed.value !== name
  }

  async #evict() {
    const target = this.#target
    if (target === undefined) return
    const { lock, claim } = target
    this.#confirm.disabled = true
    this.#reason.disabled = this.#typed.disabled = true
    this.#say('Evicting…', 'plain')
    try {
      const { result } = await this.#send({ key: lock.key, fence: claim.fence, reason: this.#reason.value.trim() })
      const { text, tone } = results[result] ?? { text: result, tone: 'plain' }
      this.#say(`${runnerName(claim.runner)}, fence ${claim.fence}: ${text}.`, tone)
      this.#confirm.hidden = true
      this.#cancel.textContent = 'Close'
      this.#cancel.focus()
    } catch (error) {
      this.#say(error instanceof Error ? error.message : String(error), 'bad')
      this.#reason.disabled = this.#typed.disabled = false
      this.#check()
    }
    this.#done()
  }

  /**
   * @param {string} text
   * @param {import('./wording.js').Tone} tone
   */
  #say(text, tone) {
    this.#result.textContent = text
    this.#result.dataset['tone'] = tone
  }
}

/**
 * @param {string} name
 * @param {string | Node} value
 */
function line(name, value) {
  return [element('dt', {}, name), element('dd', {}, value)]
}
