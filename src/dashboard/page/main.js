/**
 * The dashboard: signs in if the server needs a token, then shows what the server sends.
 * @module
 */
import { goTo, place } from './address.js'
import { AttentionView } from './attention-view.js'
import { AuditView } from './audit-view.js'
import { ChartsView } from './charts-view.js'
import { byId } from './element.js'
import { EventsView } from './events-view.js'
import { EvictDialog } from './evict-dialog.js'
import { startLiveTimes } from './live-times.js'
import { focusLock, LockView } from './lock-view.js'
import { LocksView } from './locks-view.js'
import { RatesView } from './rates-view.js'
import { ask, keptToken, listen, Refused } from './server.js'
import { startTabs } from './tabs.js'
import { startTheme } from './theme.js'
import { counted, visible } from './wording.js'
import { WaitsView } from './waits-view.js'

/** @typedef {import('../documents.ts').PrincipalDocument} Principal */
/** @typedef {import('../documents.ts').TotalsDocument} Totals */

/** Events come in bursts; one read serves a whole burst. */
const burstMs = 150
/** Charts are of minutes. */
const chartsEveryMs = 15_000
/** How many of the most contended locks are looked at for what needs attention. */
const worstLocks = '20'
/** The pause before the next attempt, if the server did not answer when the page was opened. */
const againMs = 2000

const signIn = /** @type {HTMLFormElement} */ (byId('sign-in'))
const signInNote = byId('sign-in-note')
const tokenField = /** @type {HTMLInputElement} */ (byId('token'))
const board = byId('board')
const connection = byId('connection')

startTheme(byId('theme'))
startLiveTimes()
signIn.addEventListener('submit', (event) => {
  event.preventDefault()
  keptToken.set(tokenField.value.trim())
  tokenField.value = ''
  void enter()
})
byId('sign-out').addEventListener('click', () => {
  keptToken.forget()
  location.reload()
})
void enter()

/** Shows the dashboard if the server allows it, else asks for a token. */
async function enter() {
  try {
    const { wantsToken } = /** @type {import('../documents.ts').AccessDocument} */ (await ask('dashboard/access'))
    if (!wantsToken) keptToken.forget()
    else if (keptToken.get() === undefined) return askForToken('')
    const principal = /** @type {Principal} */ (await ask('v1/principal'))
    if (!principal.rights.includes('read'))
      return askForToken("This token lacks the right 'read': it may not list locks.")
    signIn.hidden = true
    openBoard(principal)
  } catch (error) {
    const { status, message } = error instanceof Refused ? error : new Refused(0, String(error))
    if (status === 401 && keptToken.get() !== undefined) return askForToken('The server does not know this token.')
    if (status === 403 && keptToken.get() !== undefined) return askForToken(message)
    if (status === 401 || status === 403) return say(message, 'bad')
    say(`${message} Retrying…`, 'bad')
    setTimeout(() => void enter(), againMs)
  }
}

/** @param {string} why */
function askForToken(why) {
  keptToken.forget()
  say('Not signed in', 'plain')
  signIn.hidden = false
  signInNote.textContent = why
  tokenField.focus()
}

/** @param {Principal} principal */
function openBoard({ name, rights, store, refreshMs }) {
  board.hidden = false
  document.title = `Leasehold · ${visible(store)}`
  byId('store').textContent = visible(store)
  byId('who').textContent = keptToken.get() === undefined ? '' : `as ${visible(name)}`
  byId('sign-out').hidden = keptToken.get() === undefined
  const watching = new AbortController()

  const evict = rights.includes('evict')
    ? (/** @type {import('./wording.js').Lock} */ lock, /** @type {import('./wording.js').Claim} */ claim) =>
        evicting.open(lock, claim)
    : undefined
  /** @param {Readonly<Record<string, string>>} query */
  const overview = async (query) =>
    /** @type {import('../documents.ts').OverviewDocument} */ (await ask('v1/overview', { query }))
  const locks = new LocksView(overview)
  const lock = new LockView(
    async (key) => /** @type {import('../documents.ts').LockPageDocument} */ (await ask('v1/lock', { query: { key } })),
    evict,
  )
  const attention = new AttentionView(() => overview({ sort: 'contention', limit: worstLocks }))
  const waits = new WaitsView(
    async () => /** @type {import('../documents.ts').CyclesDocument} */ (await ask('v1/cycles')),
    (found) => attention.showCycles(found),
  )
  const charts = new ChartsView(async (namespace) => {
    const query = namespace === '' ? {} : { namespace }
    return /** @type {import('../documents.ts').SeriesDocument} */ (await ask('v1/series', { query }))
  })
  const audit = new AuditView(
    async () => /** @type {{ evictions: import('../documents.ts').AuditEntry[] }} */ (await ask('v1/audit')),
  )
  const events = new EventsView()
  const rates = new RatesView()
  const evicting = new EvictDialog(
    async (body) => /** @type {import('../documents.ts').AuditEntry} */ (await ask('v1/evictions', { body })),
    () => refresh(),
  )

  const refresh = () => {
    void attention.refresh()
    const { lock: key, tab = '' } = place()
    if (key !== undefined) void lock.refresh(key)
    else if (tab === 'waits') void waits.refresh()
    else if (tab === 'evictions') void audit.refresh()
    else if (tab === 'charts') void refreshCharts()
    else void locks.refresh()
  }
  const refreshCharts = () => charts.refresh(place()['namespace'] ?? '')
  let burst = 0
  const refreshSoon = () => {
    clearTimeout(burst)
    burst = window.setTimeout(refresh, burstMs)
  }
  const tabs = startTabs(byId('tabs'), (tab) => goTo({ ...filtersOf(place()), tab: tab === 'locks' ? '' : tab }))
  /** Where the list of locks was scrolled to, for whoever comes back to it. */
  let listScrolledTo = 0
  let shownKey = place()['lock']
  const showPlace = () => {
    const { lock: key, tab = '' } = place()
    if (key !== undefined && shownKey === undefined) listScrolledTo = window.scrollY
    byId('lock-panel').hidden = key === undefined
    byId('views').hidden = key !== undefined
    byId('attention').hidden = key !== undefined
    tabs.show(tab === '' ? 'locks' : tab)
    locks.showPlace()
    refresh()
    if (key !== undefined && key !== shownKey) {
      window.scrollTo(0, 0)
      focusLock()
    } else if (key === undefined && shownKey !== undefined) window.scrollTo(0, listScrolledTo)
    shownKey = key
  }
  window.addEventListener('hashchange', showPlace)
  byId('lock-back').addEventListener('click', () => goTo(filtersOf(kept)))
  /** The filters that the list had. */
  let kept = filtersOf(place())
  window.addEventListener('hashchange', () => {
    if (place()['lock'] === undefined) kept = place()
  })
  document.addEventListener('keydown', (event) => onKey(event))
  showPlace()
  void refreshCharts()
  setInterval(() => {
    if (!document.hidden) void refreshCharts()
  }, chartsEveryMs)
  // Renewals are not events: they show at the next read.
  setInterval(() => {
    if (document.hidden || connection.dataset['tone'] !== 'good') return
    refresh()
    // Read cycles also while another tab is open: a cycle is marked on its tab.
    if (place()['tab'] !== 'waits') void waits.refresh()
  }, refreshMs)

  void listen('v1/changes', watching.signal, {
    connected() {
      say('Live', 'good')
      refresh()
      void waits.refresh()
      void refreshCharts()
    },
    onEvent(event, data) {
      if (event === 'totals') showTotals(/** @type {Totals} */ (data))
      else if (event === 'rates') rates.add(/** @type {import('../documents.ts').RatesDocument} */ (data))
      else if (event === 'store') {
        showStore(/** @type {{ up: boolean }} */ (data))
        refreshSoon()
      } else if (event === 'change') {
        events.add(/** @type {import('../documents.ts').ChangeDocument} */ (data))
        refreshSoon()
      } else if (event === 'more') events.addMore(/** @type {{ changes: number }} */ (data).changes)
    },
    lost: (retryMs) =>
      say(
        `Connection lost: this data is out of date. Retrying in ${counted(Math.ceil(retryMs / 1000), 'second')}…`,
        'bad',
      ),
    // The token is no longer valid. The reloaded page asks for another.
    refused: () => location.reload(),
  })
}

/**
 * The place of the list with these filters.
 * @param {import('./address.js').Place} fields
 * @returns {import('./address.js').Place}
 */
function filtersOf(fields) {
  return { ...fields, lock: '' }
}

/**
 * The keys that work everywhere but in fields: `/` to search, Escape to go back to the list.
 * @param {KeyboardEvent} event
 */
function onKey(event) {
  const isTyping = event.target instanceof Element && event.target.closest('input, select, textarea, dialog') !== null
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return
  if (event.key === '/') {
    event.preventDefault()
    if (place()['lock'] !== undefined || (place()['tab'] ?? '') !== '') goTo({})
    setTimeout(() => byId('name-filter').focus())
  } else if (event.key === 'Escape' && place()['lock'] !== undefined) byId('lock-back').click()
}

/** @param {Totals} totals */
function showTotals({ locks, holders, waiters, expired, truncated }) {
  const more = truncated ? '+' : ''
  for (const [id, count] of Object.entries({ locks, holders, waiters, expired })) {
    byId(`total-${id}`).textContent = `${count}${more}`
  }
  byId('total-expired').dataset['tone'] = expired > 0 ? 'bad' : 'plain'
}

/** @param {{ readonly up: boolean }} store */
function showStore({ up }) {
  if (up) say('Live', 'good')
  else say('The store does not answer: this data is out of date.', 'bad')
}

/**
 * @param {string} text
 * @param {import('./wording.js').Tone} tone
 */
function say(text, tone) {
  connection.textContent = text
  connection.dataset['tone'] = tone
}
