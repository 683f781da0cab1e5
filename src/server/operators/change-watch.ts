import type { Environment, Timer } from '../../core/time/environment.ts'
import type { AuditEntry, ChangeDocument, RatesDocument, TotalsDocument } from '../../dashboard/documents.ts'
import type { EventFeed, Principal } from '../contract/call.ts'
import type { StoreAccess } from '../store/store-facade.ts'
import { changeSteps, ownPace, ratesOf, renewalSteps, totalSteps, type StoreSnapshot } from './changes.ts'
import { atOnce, filtered, inPieces, mapped, type Steps } from './pieces.ts'
import type { Snapshots } from './snapshots.ts'

type Send = (event: string, data: unknown) => void

interface Watcher {
  readonly principal: Principal
  readonly send: Send
  /** The totals last sent, so that nothing is sent twice. */
  totals: string
  isStoreUp: boolean | undefined
}

/** What changed since the snapshot before. */
interface SeenChanges {
  readonly changes: readonly ChangeDocument[]
  /** By key. Absent: the store does not count them. */
  readonly renewals: ReadonlyMap<string, number> | undefined
}

/** What all watchers with one token see of a snapshot. */
interface View {
  readonly changes: readonly ChangeDocument[]
  readonly rates: RatesDocument
  readonly totals: TotalsDocument
  /** The totals as text, to compare them. */
  readonly text: string
}

/** What a watch needs. */
export interface ChangeWatchOptions {
  readonly store: Pick<StoreAccess, 'supports'>
  readonly snapshots: Pick<Snapshots, 'read'>
  readonly environment: Environment
  /**
   * True: the store is read while nobody watches, too, unless reading is expensive.
   *
   * @default false
   */
  readonly always?: boolean | undefined
  /** Learns of every snapshot, and then of what changed since the one before, a part at a time: with no keys again. */
  readonly seen?: ((snapshot: StoreSnapshot, changes: readonly ChangeDocument[]) => void) | undefined
  /** The eviction that ended a claim, if one did. */
  readonly evicted: (key: string, fence: number) => AuditEntry | undefined
}

const noChanges: SeenChanges = { changes: [], renewals: undefined }
const readEveryMs = 1000
/** Changes sent after one snapshot: a stream that is read more slowly would be cut off. */
const changesSentMax = 100
/** Changes of which others learn at once. */
const changesPerPiece = 256
/** Reading takes at most a fifth of the store's time, and a fiftieth while nobody watches. */
const restPerRead = { watched: 4, unwatched: 49 }

/** Reads the store once a second, once for all watchers, and sends each what it may see. */
export class ChangeWatch {
  readonly #store: ChangeWatchOptions['store']
  readonly #snapshots: ChangeWatchOptions['snapshots']
  readonly #environment: Environment
  readonly #isAlways: boolean
  readonly #seen: ChangeWatchOptions['seen']
  readonly #evicted: ChangeWatchOptions['evicted']
  readonly #everyMs: number
  readonly #watchers = new Set<Watcher>()
  /** The last snapshot. */
  #before: StoreSnapshot | undefined
  /** What tokens see of it without what has changed: streams may be opened again and again. */
  #views = new Map<Principal, View>()
  #isStoreUp = false
  #timer: Timer | undefined
  #reading = false
  #isClosed = false

  constructor({ store, snapshots, environment, evicted, always = false, seen }: ChangeWatchOptions) {
    this.#store = store
    this.#snapshots = snapshots
    this.#environment = environment
    this.#evicted = evicted
    this.#seen = seen
    this.#everyMs = Math.max(readEveryMs, expensiveStoreMs(store))
    this.#isAlways = always && expensiveStoreMs(store) === 0
    if (this.#isAlways) this.#wakeIn(0)
  }

  /** Reads the store no more. */
  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
  }

  /** The events of one watcher: `totals`, `change`, `more` (how many changes were not sent), `rates` and `store`. */
  source(principal: Principal): EventFeed {
    return { attach: (send) => this.#attach({ principal, send, totals: '', isStoreUp: undefined }) }
  }

  #attach(watcher: Watcher): Disposable {
    this.#watchers.add(watcher)
    // A later watcher gets the last snapshot: more watchers cause no more reads.
    if (this.#before === undefined || (this.#isAlways && this.#watchers.size === 1)) this.#wakeIn(0)
    if (this.#before !== undefined)
      notifyWatcher(watcher, this.#isStoreUp ? this.#stillView(this.#before, watcher.principal) : undefined)
    return { [Symbol.dispose]: () => this.#detach(watcher) }
  }

  #detach(watcher: Watcher): void {
    this.#watchers.delete(watcher)
    if (this.#isNeeded) return
    this.#timer?.cancel()
    this.#keep(undefined)
  }

  #keep(snapshot: StoreSnapshot | undefined): void {
    this.#before = snapshot
    this.#views = new Map()
  }

  #stillView(snapshot: StoreSnapshot, principal: Principal): View {
    let view = this.#views.get(principal)
    if (view === undefined) this.#views.set(principal, (view = atOnce(viewSteps(snapshot, principal, noChanges))))
    return view
  }

  get #isNeeded(): boolean {
    return !this.#isClosed && (this.#isAlways || this.#watchers.size > 0)
  }

  #wakeIn(delayMs: number): void {
    if (this.#reading || this.#isClosed) return
    this.#timer?.cancel()
    this.#timer = this.#environment.timer(delayMs, () => void this.#readAndRest())
  }

  async #readAndRest(): Promise<void> {
    this.#reading = true
    const startedAt = this.#environment.now()
    const snapshot = await this.#snapshots.read().catch(() => undefined)
    if (this.#isNeeded) await this.#publish(snapshot)
    this.#reading = false
    if (!this.#isNeeded) return this.#keep(undefined)
    const rest = this.#watchers.size > 0 ? restPerRead.watched : restPerRead.unwatched
    this.#wakeIn(Math.max(this.#everyMs, rest * (this.#environment.now() - startedAt)))
  }

  /** Undefined: the store did not answer. The snapshot before is kept, and compared when it answers again. */
  async #publish(snapshot: StoreSnapshot | undefined): Promise<void> {
    const before = this.#before
    const changes =
      snapshot === undefined || before === undefined ? noChanges : await this.#changesBetween(before, snapshot)
    if (snapshot !== undefined) await this.#pass(snapshot, changes.changes)
    // Once for each token, however many watch with it.
    const views = new Map<Principal, View>()
    if (snapshot !== undefined) {
      for (const { principal } of this.#watchers) {
        if (views.has(principal)) continue
        views.set(principal, await inPieces(viewSteps(snapshot, principal, changes), ownPace.turn))
      }
    }
    if (!this.#isNeeded) return
    if (snapshot !== undefined) this.#keep(snapshot)
    this.#isStoreUp = snapshot !== undefined
    for (const watcher of this.#watchers) {
      const { principal } = watcher
      // Who came to watch meanwhile hears of no change before that.
      notifyWatcher(watcher, snapshot && (views.get(principal) ?? this.#stillView(snapshot, principal)))
    }
  }

  async #pass(snapshot: StoreSnapshot, changes: readonly ChangeDocument[]): Promise<void> {
    if (this.#seen === undefined) return
    this.#seen(snapshot, changes.slice(0, changesPerPiece))
    for (let from = changesPerPiece; from < changes.length; from += changesPerPiece) {
      await ownPace.turn()
      this.#seen({ ...snapshot, keys: [] }, changes.slice(from, from + changesPerPiece))
    }
  }

  async #changesBetween(before: StoreSnapshot, snapshot: StoreSnapshot): Promise<SeenChanges> {
    const at = new Date(this.#environment.wall()).toISOString()
    const { turn } = ownPace
    const changes = await this.#withEvictions(await inPieces(changeSteps(before, snapshot, at), turn))
    const isCounted = this.#store.supports.renewals !== false
    return { changes, renewals: isCounted ? await inPieces(renewalSteps(before, snapshot), turn) : undefined }
  }

  /** A claim evicted by this server looks released in the snapshot: report it as lost, and the next grant of its key as a takeover. */
  #withEvictions(changes: readonly ChangeDocument[]): Promise<readonly ChangeDocument[]> {
    const evicted = new Map<string, number>()
    const steps = mapped(changes, (change): ChangeDocument => {
      const { key, fence, kind } = change
      const left = evicted.get(key) ?? 0
      if (kind === 'granted' && left > 0) {
        evicted.set(key, left - 1)
        return { ...change, takeover: true }
      }
      const entry = kind === 'released' ? this.#evicted(key, fence) : undefined
      if (entry === undefined) return change
      evicted.set(key, left + 1)
      return { ...change, kind: 'lost', detail: `evicted by ${entry.by}: ${entry.reason}` }
    })
    return inPieces(steps, ownPace.turn)
  }
}

/** Where reading is expensive, as with GitHub: the longest pause of a waiter there. 0 elsewhere. */
export function expensiveStoreMs({ supports }: Pick<StoreAccess, 'supports'>): number {
  return supports.pollingDefault?.maxMs ?? 0
}

function* viewSteps(snapshot: StoreSnapshot, principal: Principal, { changes, renewals }: SeenChanges): Steps<View> {
  const isSeen = (key: string): boolean => principal.may('read', key)
  const seen = yield* filtered(changes, ({ key }) => isSeen(key))
  const totals = yield* totalSteps(snapshot, isSeen)
  return {
    changes: seen,
    rates: ratesOf(seen, renewals, isSeen),
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
  const { changes, rates, totals, text } = view
  for (const change of changes.slice(0, changesSentMax)) send('change', change)
  if (changes.length > changesSentMax) send('more', { changes: changes.length - changesSentMax })
  if (Object.values(rates).some((count) => count > 0)) send('rates', rates)
  if (text !== watcher.totals) send('totals', totals)
  watcher.totals = text
}
