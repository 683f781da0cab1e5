/**
 * The dashboard: signs in if the server needs a token, then shows what the server sends.
 * @module
 */
import { AuditView } from './audit-view.js'
import { byId } from './element.js'
import { EventsView } from './events-view.js'
import { EvictDialog } from './evict-dialog.js'
import { startLiveTimes } from './live-times.js'
import { LocksView } from './locks-view.js'
import { RatesView } from './rates-view.js'
import { ask, keptToken, listen, Refused } from './server.js'
import { startTabs } from './tabs.js'
import { counted, visible } from './wording.js'
import { WaitsView } from './waits-view.js'

/** @typedef {import('../documents.ts').PrincipalDocument} Principal */
/** @typedef {import('../documents.ts').TotalsDocument} Totals */

/** Events come in bursts; one read serves a whole burst. */
const burstMs = 150
/** The pause before the next attempt, if the server did not answer when the page was opened. */
const againMs = 2000

const signIn = /** @type {HTMLFormElement} */ (byId('sign-in'))
const signInNote = byId('sign-in-note')
const tokenField = /** @type {HTMLInputElement} */ (byId('token'))
const board = byId('board')
const connection = byId('connection')

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
    if (status === 401) return askForToken('The server does not know this token.')
    if (status === 403) return askForToken(message)
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

  const locks = new LocksView(
    async (query) => /** @type {import('../documents.ts').OperatorsLockPage} */ (await ask('v1/locks', { query })),
    rights.includes('evict') ? (lock, claim) => evicting.open(lock, claim) : undefined,
  )
  const waits = new WaitsView(
    async () => /** @type {import('../documents.ts').CyclesDocument} */ (await ask('v1/cycles')),
  )
  const audit = new AuditView(
    async () => /** @type {{ evictions: import('../documents.ts').AuditEntry[] }} */ (await ask('v1/audit')),
  )
  const events = new EventsView()
  const rates = new RatesView()
  const evicting = new EvictDialog(
    async (body) => /** @type {import('../documents.ts').AuditEntry} */ (await ask('v1/evictions', { body })),
    () => refresh(),
  )
  let tab = 'locks-tab'

  const refresh = () => {
    if (tab === 'locks-tab') void locks.refresh()
    else if (tab === 'waits-tab') void waits.refresh()
    else void audit.refresh()
  }
  let burst = 0
  const refreshSoon = () => {
    clearTimeout(burst)
    burst = window.setTimeout(refresh, burstMs)
  }
  startTabs(byId('tabs'), (chosen) => {
    tab = chosen
    refresh()
  })
  // Renewals are not events: they show at the next read.
  setInterval(() => {
    if (document.hidden || connection.dataset['tone'] !== 'good') return
    refresh()
    // Read cycles also while another tab is open: a cycle is marked on its tab.
    if (tab !== 'waits-tab') void waits.refresh()
  }, refreshMs)

  void listen('v1/changes', watching.signal, {
    connected() {
      say('Live', 'good')
      refresh()
      void waits.refresh()
    },
    onEvent(event, data) {
      if (event === 'totals') showTotals(/** @type {Totals} */ (data))
      else if (event === 'rates') rates.add(/** @type {import('../documents.ts').RatesDocument} */ (data))
      else if (event === 'store') showStore(/** @type {{ up: boolean }} */ (data))
      else if (event === 'change') {
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
