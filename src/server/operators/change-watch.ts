import type { Environment, Timer } from '../../core/time/environment.ts'
import type { AuditEntry, ChangeDocument, PaceDocument, TotalsDocument } from '../../dashboard/documents.ts'
import type { EventSource, Grant } from '../contract/call.ts'
import { namespaceOf } from '../auth/rights.ts'
import type { StoreAccess } from '../store/store-facade.ts'
import { changesBetween, paceOf, renewalsBetween, totalsOf, lookAt, type Look } from './changes.ts'

type Send = (event: string, data: unknown) => void

interface Watcher {
  readonly grant: Grant
  readonly send: Send
  /** What it was last told, so that nothing is told twice. */
  totals: string
  isStoreUp: boolean | undefined
}

/** What was seen since the look before. */
interface NotifiedClaim {
  readonly changes: readonly ChangeDocument[]
  /** By key. Absent: the store does not count them. */
  readonly renewals: ReadonlyMap<string, number> | undefined
}

/** What there is of a look for all who watch with one token. */
interface View {
  readonly changes: readonly ChangeDocument[]
  readonly pace: PaceDocument
  readonly totals: TotalsDocument
  /** The totals as text, to compare them. */
  readonly text: string
}

/** What looks are made with. */
export interface ChangeWatchOptions {
  readonly store: Pick<StoreAccess, 'list' | 'supports'>
  readonly environment: Environment
  /** The eviction that ended a claim, if one did. */
  readonly evicted: (key: string, fence: number) => AuditEntry | undefined
}

const noChanges: NotifiedClaim = { changes: [], renewals: undefined }
const lookEveryMs = 1000
/** Changes told of one look: a stream that is not read as fast would be cut off. */
const changesSentMax = 100
/** Looking takes at most a fifth of the store's time. */
const restPerLook = 4

/** Looks at the store once a second while anybody watches, one look for all, and tells each what it may see. */
export class ChangeWatch {
  readonly #store: ChangeWatchOptions['store']
  readonly #environment: Environment
  readonly #evicted: ChangeWatchOptions['evicted']
  readonly #everyMs: number
  readonly #watchers = new Set<Watcher>()
  /** The last look that was answered. */
  #before: Look | undefined
  #isStoreUp = false
  #timer: Timer | undefined
  #looking = false

  constructor({ store, environment, evicted }: ChangeWatchOptions) {
    this.#store = store
    this.#environment = environment
    this.#evicted = evicted
    this.#everyMs = Math.max(lookEveryMs, expensiveStoreMs(store))
  }

  /** The events of one watcher: `totals`, `change`, `more` (changes that are not told), `pace` and `store`. */
  source(grant: Grant): EventSource {
    return { attach: (send) => this.#attach({ grant, send, totals: '', isStoreUp: undefined }) }
  }

  #attach(watcher: Watcher): Disposable {
    this.#watchers.add(watcher)
    // Who comes later is told what was seen last: however many come, the store is asked no more often.
    if (this.#before === undefined) this.#wakeIn(0)
    else notifyWatcher(watcher, this.#isStoreUp ? viewOf(this.#before, watcher.grant, noChanges) : undefined)
    return { [Symbol.dispose]: () => this.#detach(watcher) }
  }

  #detach(watcher: Watcher): void {
    this.#watchers.delete(watcher)
    if (this.#watchers.size > 0) return
    this.#timer?.cancel()
    this.#before = undefined
  }

  #wakeIn(delayMs: number): void {
    if (this.#looking) return
    this.#timer?.cancel()
    this.#timer = this.#environment.timer(delayMs, () => void this.#lookAndRest())
  }

  async #lookAndRest(): Promise<void> {
    this.#looking = true
    const startedAt = this.#environment.now()
    const look = await lookAt(this.#store).catch(() => undefined)
    this.#looking = false
    if (this.#watchers.size === 0) return
    this.#publish(look)
    this.#wakeIn(Math.max(this.#everyMs, restPerLook * (this.#environment.now() - startedAt)))
  }

  /** Undefined: the store did not answer. What it had before is kept, and compared when it answers again. */
  #publish(look: Look | undefined): void {
    const changes =
      look === undefined || this.#before === undefined ? noChanges : this.#changesBetween(this.#before, look)
    this.#before = look ?? this.#before
    this.#isStoreUp = look !== undefined
    // Once a token, however many watch with it: nobody is served meanwhile.
    const views = new Map<Grant, View | undefined>()
    for (const watcher of this.#watchers) {
      const { grant } = watcher
      if (!views.has(grant)) views.set(grant, look && viewOf(look, grant, changes))
      notifyWatcher(watcher, views.get(grant))
    }
  }

  #changesBetween(before: Look, look: Look): NotifiedClaim {
    const at = new Date(this.#environment.wall()).toISOString()
    const changes = changesBetween(before, look, at).map((change) => this.#withEviction(change))
    const isCounted = this.#store.supports.renewals !== false
    return { changes, renewals: isCounted ? renewalsBetween(before, look) : undefined }
  }

  /** What was evicted here was not released, although it looks so. */
  #withEviction(change: ChangeDocument): ChangeDocument {
    if (change.kind !== 'released') return change
    const entry = this.#evicted(change.key, change.fence)
    return entry === undefined ? change : { ...change, kind: 'lost', detail: `evicted by ${entry.by}: ${entry.reason}` }
  }
}

/** Where asking is expensive, as with GitHub, no oftener than somebody asks who has waited long. 0 elsewhere. */
export function expensiveStoreMs({ supports }: Pick<StoreAccess, 'supports'>): number {
  return supports.pollingDefault?.maxMs ?? 0
}

function viewOf(look: Look, grant: Grant, { changes, renewals }: NotifiedClaim): View {
  const isSeen = (key: string): boolean => grant.covers(namespaceOf(key))
  const seen = changes.filter(({ key }) => isSeen(key))
  const totals = totalsOf(look, isSeen)
  return {
    changes: seen,
    pace: paceOf(seen, renewals, isSeen),
    totals,
    text: JSON.stringify(totals),
  }
}

/** Undefined: the store did not answer. */
function notifyWatcher(watcher: Watcher, view: View | undefined): void {
  const { send } = watcher
  const isStoreUp = view !== undefined
  if (watcher.isStoreUp !== isStoreUp) send('store', { up: isStoreUp })
  watcher.isStoreUp = isStoreUp
  if (view === undefined) return
  const { changes, pace, totals, text } = view
  for (const change of changes.slice(0, changesSentMax)) send('change', change)
  if (changes.length > changesSentMax) send('more', { changes: changes.length - changesSentMax })
  if (Object.values(pace).some((count) => count > 0)) send('pace', pace)
  if (text !== watcher.totals) send('totals', totals)
  watcher.totals = text
}
