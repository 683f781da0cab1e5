/**
 * The holders of a lock and its queue.
 * @module
 */
import { element } from './element.js'
import { KeyedChildren } from './keyed-children.js'
import { Elapsed, LeaseBar } from './live-times.js'
import { groupsOf } from './queue-groups.js'
import { counted, explainCommand, metadataText, runnerName, runnerPlace, timeText, visible } from './wording.js'

/** @typedef {import('./wording.js').Lock} Lock */
/** @typedef {import('./wording.js').Claim} Claim */
/** @typedef {import('./queue-groups.js').Group} Group */
/** @typedef {(lock: Lock, claim: Claim) => void} Evict */

/** How many lines of the queue are shown, and claims of a group: some queues have thousands. */
const groupsShownMax = 100
const claimsOfGroupMax = 50

export class LockDetails {
  #holders = element('div', { class: 'claims' })
  #nobody = element('p', { class: 'quiet' }, 'Not held. The first waiter gets the lock the next time it asks.')
  #queue = element('ol', { class: 'queue' })
  #queueTitle = element('h3')
  #more = element('p', { class: 'quiet' })
  #moreHolders = element('p', { class: 'quiet' })
  /** @type {KeyedChildren<Claim>} */
  #holderCards
  /** @type {KeyedChildren<Group>} */
  #groupItems
  /** @type {Lock} */
  #lock
  element

  /**
   * @param {Lock} lock
   * @param {Evict | undefined} evict undefined: the token may not
   */
  constructor(lock, evict) {
    this.#lock = lock
    this.#holderCards = new KeyedChildren(
      this.#holders,
      ({ fence }) => String(fence),
      () => new HolderCard(evict && ((claim) => evict(this.#lock, claim))),
    )
    this.#groupItems = new KeyedChildren(
      this.#queue,
      ({ name, claims }) => (claims.length > 1 ? `group ${name}` : `one ${nameOfWaiter(claims[0])}`),
      ({ claims }) => (claims.length > 1 ? new GroupItem() : new SingleItem()),
    )
    const command = explainCommand(lock)
    this.element = element(
      'div',
      { class: 'details' },
      element('section', {}, element('h3', {}, 'Held by'), this.#nobody, this.#holders, this.#moreHolders),
      element('section', {}, this.#queueTitle, this.#queue, this.#more),
      command && element('p', { class: 'hint' }, 'In a terminal: ', element('code', {}, command)),
    )
    this.update(lock)
  }

  /** @param {Lock} lock */
  update(lock) {
    this.#lock = lock
    const { holders, waiters, held, waiting } = lock
    this.#nobody.hidden = holders.length > 0
    this.#holderCards.show(holders)
    const unshown = held - holders.length
    this.#moreHolders.textContent = unshown > 0 ? `and ${unshown} more holders` : ''
    this.#queueTitle.textContent = waiting === 0 ? 'Nobody is queued' : `${waiting} queued, in order`
    const shown = groupsOf(waiters).slice(0, groupsShownMax)
    this.#groupItems.show(shown)
    const hidden = waiting - shown.reduce((sum, { claims }) => sum + claims.length, 0)
    this.#more.textContent = hidden > 0 ? `and ${hidden} more behind them` : ''
  }
}

class HolderCard {
  #name = element('strong')
  #place = element('span', { class: 'quiet' })
  #mark = element('span', { class: 'badge' })
  #lease = new LeaseBar()
  #since = new Elapsed()
  #heartbeat = new Elapsed()
  #facts = element('dl', { class: 'facts' })
  #metadata = element('dl', { class: 'facts metadata' })
  #open = element('details', {}, element('summary', {}, 'Metadata'), this.#metadata)
  #evict = element('button', { type: 'button', class: 'danger' }, 'Evict…')
  element = element('article', { class: 'claim' })
  /** @type {Claim | undefined} */
  #claim

  /** @param {((claim: Claim) => void) | undefined} evict */
  constructor(evict) {
    this.#evict.hidden = evict === undefined
    this.#evict.addEventListener('click', () => this.#claim && evict?.(this.#claim))
    this.element.append(
      element('header', {}, element('div', {}, this.#name, ' ', this.#place), this.#mark, this.#evict),
      this.#lease.element,
      this.#facts,
      this.#open,
    )
  }

  /** @param {Claim} claim */
  update(claim) {
    this.#claim = claim
    const { runner, acquiredAt = claim.enteredAt } = claim
    this.#name.textContent = runnerName(runner)
    this.#place.textContent = runnerPlace(runner)
    markClaim(this.#mark, claim)
    this.#lease.update(claim)
    this.#since.update(claim.sinceMs, claim.readAt)
    this.#heartbeat.update(claim.lastHeartbeatMs, claim.readAt)
    this.#evict.setAttribute('aria-label', `Evict ${runnerName(runner)}, fence ${claim.fence}`)
    this.#facts.replaceChildren(
      ...fact('Fence', String(claim.fence)),
      ...fact('Held for', this.#since.element, element('span', { class: 'quiet' }, `since ${timeText(acquiredAt)}`)),
      ...fact('Last heartbeat', this.#heartbeat.element, element('span', { class: 'quiet' }, 'ago')),
      ...fact('Renewed', counted(claim.renewalCount, 'time')),
      ...claimFacts(claim),
      ...fact('Runner', visible(runner.id)),
    )
    const entries = Object.entries(runner.metadata ?? {})
    this.#open.hidden = entries.length === 0
    this.#metadata.replaceChildren(...entries.flatMap(([name, value]) => fact(visible(name), metadataText(value))))
  }
}

/** A place in the queue that one claim has. */
class SingleItem {
  #waiter = new WaiterItem()
  element = element('li', {}, ...this.#waiter.element.childNodes)

  /** @param {Group} group */
  update({ first, claims: [claim] }) {
    this.element.value = first
    if (claim !== undefined) this.#waiter.update(claim)
  }
}

/** Several places in the queue in a row, all of one kind. */
class GroupItem {
  #name = element('strong')
  #count = element('span', { class: 'count' })
  #longest = new Elapsed()
  #list = element('ol')
  #more = element('p', { class: 'quiet' })
  #open = element(
    'details',
    {},
    element(
      'summary',
      {},
      this.#name,
      ' ',
      this.#count,
      ' ',
      element('span', { class: 'quiet' }, 'the longest for ', this.#longest.element),
    ),
    this.#list,
    this.#more,
  )
  element = element('li', {}, this.#open)
  /** @type {KeyedChildren<Claim>} */
  #items = new KeyedChildren(this.#list, nameOfWaiter, () => new WaiterItem())
  /** @type {Group | undefined} */
  #group

  constructor() {
    this.#open.addEventListener('toggle', () => this.#showClaims())
  }

  /** @param {Group} group */
  update(group) {
    this.#group = group
    const { name, first, claims } = group
    this.element.value = first
    this.#list.start = first
    this.#name.textContent = name
    this.#count.textContent = `${claims.length} queued`
    const longest = claims.reduce((most, claim) => (claim.sinceMs > most.sinceMs ? claim : most))
    this.#longest.update(longest.sinceMs, longest.readAt)
    this.#showClaims()
  }

  #showClaims() {
    if (this.#group === undefined || !this.#open.open) return
    const { claims } = this.#group
    this.#items.show(claims.slice(0, claimsOfGroupMax))
    const hidden = claims.length - claimsOfGroupMax
    this.#more.textContent = hidden > 0 ? `and ${hidden} more of them` : ''
  }
}

/** @param {Claim | undefined} claim */
function nameOfWaiter(claim) {
  return claim === undefined ? '' : `${claim.runner.id} ${claim.enteredAt}`
}

class WaiterItem {
  #name = element('strong')
  #place = element('span', { class: 'quiet' })
  #since = new Elapsed()
  #lease = new LeaseBar()
  #facts = element('span', { class: 'quiet' })
  #mark = element('span', { class: 'badge' })
  element = element(
    'li',
    {},
    element('div', {}, this.#name, ' ', this.#place, ' ', this.#mark),
    element('div', { class: 'waiting' }, 'waiting for ', this.#since.element, this.#facts, this.#lease.element),
  )

  /** @param {Claim} claim */
  update(claim) {
    this.#name.textContent = runnerName(claim.runner)
    this.#name.title = visible(claim.runner.id)
    this.#place.textContent = runnerPlace(claim.runner)
    markClaim(this.#mark, claim)
    this.#since.update(claim.sinceMs, claim.readAt)
    this.#lease.update(claim)
    const facts = [
      claim.mode === 'shared' ? 'shared' : '',
      claim.range === undefined ? '' : `bytes ${claim.range.start} to ${claim.range.end}`,
      claim.priority === 0 ? '' : `priority ${claim.priority}`,
    ].filter((text) => text !== '')
    this.#facts.textContent = facts.length === 0 ? '' : `(${facts.join(', ')})`
  }
}

/**
 * @param {HTMLElement} mark
 * @param {Claim} claim
 */
function markClaim(mark, { expired, leaving }) {
  mark.hidden = !expired && leaving === undefined
  mark.dataset['tone'] = expired ? 'bad' : 'warn'
  mark.textContent = expired ? 'expired' : `asked to leave: ${visible(leaving ?? '')}`
}

/** @param {Claim} claim */
function claimFacts({ mode, limit, range, priority, ttlMs }) {
  const permits = limit === undefined ? 'shared' : `one of ${counted(limit, 'permit')}`
  return [
    ...(mode === 'shared' ? fact('Mode', permits) : []),
    ...(range === undefined ? [] : fact('Bytes', `${range.start} to ${range.end}`)),
    ...(priority === 0 ? [] : fact('Priority', String(priority))),
    ...fact('Lease', `${ttlMs / 1000} s a renewal`),
  ]
}

/**
 * @param {string} name
 * @param {...(string | Node)} value
 */
function fact(name, ...value) {
  const [first = '', ...rest] = value
  return [element('dt', {}, name), element('dd', {}, first, ...rest.flatMap((each) => [' ', each]))]
}
