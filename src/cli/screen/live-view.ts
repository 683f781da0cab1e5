import { redactedText } from '../../core/contract/redaction.ts'
import type { LockInfo, Locks } from '../../index.ts'
import type { ParsedArguments } from '../arguments.ts'
import type { CommandContext } from '../command.ts'
import { deadlocksBetween, type DeadlockCycle } from '../inspect/deadlocks.ts'
import { pollEveryMs } from '../inspect/listing-watch.ts'
import { listedLock, readKey, readStore, type ListedLock, type Selection, type Snapshot } from '../inspect/listing.ts'
import {
  cellsOf,
  droppableHeadings,
  headingsOf,
  rowsOf,
  rowsView,
  type InspectedLock,
  type SortWord,
} from '../inspect/lock-rows.ts'
import { lockReport, type ReportView } from '../inspect/report.ts'
import { isUnrenewed } from '../inspect/unrenewed.ts'
import { pollStore } from '../inspect/store-poll.ts'
import { clockTime } from '../output/holder-text.ts'
import { lockNameOf, shownName, type Target } from '../output/lock-name.ts'
import { renderLine, wrapLine, type Line, type StyledText } from '../output/style.ts'
import { Table } from '../output/table.ts'
import { chooseStore, describeStore } from '../stores/store.ts'
import { ListState } from './list-state.ts'
import type { TakenScreen, Terminal } from './terminal.ts'

/** What a live view shows at first. */
export interface LiveView {
  readonly selection: Selection
  /** The lock to show alone; undefined: the list. */
  readonly target: Target | undefined
  readonly sort: SortWord
}

/** Shows the locks on the whole screen until the user quits, or a signal comes. */
export async function watchScreen(view: LiveView, given: ParsedArguments, context: CommandContext): Promise<number> {
  const { terminal } = context
  if (terminal === undefined) throw new Error('a live view needs a terminal')
  const live = new LiveScreen(view, given, context, terminal)
  try {
    return await pollStore(given, context, {
      everyMs: pollEveryMs,
      read: (locks) => live.read(locks),
      show: (snapshot) => void live.show(snapshot),
      away: (why) => live.away(why),
      // The screen is taken only once the store has answered: an error before that is read where it was printed.
      wake: (control) => (live.control = control),
    })
  } finally {
    live[Symbol.dispose]()
  }
}

/** How far Page Down goes beyond what is on the screen. */
const pageOverlap = 2
const listLinesBesideRows = 5

class LiveScreen implements Disposable {
  control: { readonly now: () => void; readonly stop: (exitCode: number) => void } | undefined
  readonly #view: LiveView
  readonly #context: CommandContext
  readonly #terminal: Terminal
  readonly #where: string
  readonly #namespace: string
  readonly #list: ListState
  #screen: TakenScreen | undefined
  #snapshot: Snapshot | undefined
  #locks: ReadonlyMap<string, ListedLock> = new Map()
  #deadlocks: readonly DeadlockCycle[] = []
  /** The key of the lock that the command line named. */
  readonly #named: string | undefined
  /** The key of the lock that is shown alone. */
  #opened: string | undefined
  #scrolled = 0
  #isTyping = false
  #away: { readonly why: string; readonly since: Date } | undefined

  constructor(view: LiveView, given: ParsedArguments, context: CommandContext, terminal: Terminal) {
    const { url, namespace } = chooseStore(given, context.variables)
    this.#view = view
    this.#context = context
    this.#terminal = terminal
    this.#namespace = namespace
    this.#where = `${describeStore(url)}  ${view.selection.everywhere ? 'all namespaces' : `namespace ${namespace}`}`
    this.#list = new ListState(view.sort)
    if (view.target !== undefined) this.#named = `${namespace}/${view.target.scope.key}`
    this.#opened = this.#named
  }

  /** Reads what is shown, and the whole selection only for the list and for deadlocks. */
  async read(locks: Locks): Promise<Snapshot> {
    if (this.#named !== undefined && this.#opened === this.#named) {
      const alone = await readKey(locks, this.#named)
      // A deadlock has a waiter at each of its locks.
      if (alone.keys.every(({ claims }) => claims.every(({ state }) => state === 'held'))) return alone
    }
    return readStore(locks, this.#view.selection)
  }

  async show(snapshot: Snapshot): Promise<void> {
    const before = this.#snapshot
    this.#snapshot = snapshot
    const locks = snapshot.keys.map((key) => listedLock(key, snapshot.now, snapshot.wall))
    this.#locks = new Map(locks.map((lock) => [lock.key, lock]))
    const now = new Date(snapshot.wall)
    this.#list.rows = locks.flatMap((lock) => rowsOf(lock, now))
    this.#screen ??= this.#terminal.takeScreen({ onKey: (key) => this.#onKey(key), onRedraw: () => this.#draw() })
    this.#draw()
    if (before === undefined) return
    this.#deadlocks = await deadlocksBetween(before, snapshot)
    this.#draw()
  }

  away(why: string | undefined): void {
    this.#away = why === undefined ? undefined : { why: redactedText(why), since: new Date() }
    this.#draw()
  }

  [Symbol.dispose](): void {
    this.#screen?.[Symbol.dispose]()
    this.#screen = undefined
  }

  #onKey(key: string): void {
    if (this.#isTyping) this.#onLetter(key)
    else if (key === 'q') this.control?.stop(0)
    else if (this.#opened === undefined) this.#onListKey(key)
    else this.#onLockKey(key)
    this.#draw()
  }

  #onListKey(key: string): void {
    const step = steps[key]
    if (step !== undefined) this.#list.move(step(Math.max(1, this.#height - pageOverlap)))
    else if (key === 's') this.#list.nextSort()
    else if (key === '/') this.#isTyping = true
    else if (key === '\u001b') this.#list.setFilter('')
    else if (key === '\r') this.#open(this.#list.selected)
    else if (key === ' ') this.control?.now()
  }

  #onLockKey(key: string): void {
    const step = steps[key]
    if (step !== undefined) this.#scrolled = Math.max(0, this.#scrolled + step(Math.max(1, this.#size.rows - 4)))
    else if (key === '\u001b' || key === '\r' || key === '\u007f') this.#close()
  }

  #onLetter(key: string): void {
    if (key === '\r' || key === '\u001b') {
      this.#isTyping = false
      if (key === '\u001b') this.#list.setFilter('')
    } else if (key === '\u007f') this.#list.setFilter(this.#list.filter.replace(/.$/su, ''))
    else if (!/^\p{C}/u.test(key)) this.#list.setFilter(this.#list.filter + key)
  }

  #open(row: InspectedLock | undefined): void {
    if (row === undefined) return
    this.#opened = row.key
    this.#scrolled = 0
  }

  #close(): void {
    const wasNamed = this.#opened === this.#named
    this.#opened = undefined
    // The list may not have been read yet.
    if (wasNamed) this.control?.now()
  }

  get #size() {
    return this.#terminal.size()
  }

  /** Rows of the list that fit. */
  get #height(): number {
    return Math.max(1, this.#size.rows - listLinesBesideRows)
  }

  #draw(): void {
    if (this.#screen === undefined || this.#snapshot === undefined) return
    const { columns, rows } = this.#size
    const { look } = this.#context
    const body = this.#opened === undefined ? this.#listLines() : this.#lockLines(this.#opened, rows - 4)
    const lines = [this.#title(columns), this.#counts(), this.#banner(), ...body.slice(0, rows - 4)]
    while (lines.length < rows - 1) lines.push([])
    lines.push(this.#keysLine())
    this.#screen.draw(lines.map((line) => renderLine(line, { colour: look.colour, columns })))
  }

  #title(columns: number): Line {
    const now = new Date()
    const text = ` leasehold watch  ${this.#where}  ${clockTime(now, now)}`
    return [{ text: text.padEnd(columns), style: 'inverse' }]
  }

  #counts(): Line {
    // Of the others nothing may have been read.
    if (this.#named !== undefined && this.#opened === this.#named) return []
    const locks = [...this.#locks.values()]
    const held = locks.filter((lock) => lock.held > 0).length
    const waiting = locks.reduce((sum, lock) => sum + lock.waiting, 0)
    const silent = locks.filter((lock) => lock.holders.some((holder) => isUnrenewed(holder))).length
    const dot = this.#context.look.symbols ? ' · ' : ', '
    const line: StyledText[] = [
      { text: ` ${locks.length}${this.#snapshot?.truncated === true ? '+' : ''} locks${dot}${held} held${dot}` },
      { text: `${waiting} waiting`, style: waiting > 0 ? 'yellow' : undefined },
    ]
    if (silent > 0) line.push({ text: dot }, { text: `${silent} not renewed`, style: 'red' })
    const deadlocks = this.#deadlocks.length
    if (deadlocks > 0)
      line.push({ text: dot }, { text: `${deadlocks} deadlock${deadlocks === 1 ? '' : 's'}`, style: 'red' })
    return line
  }

  #banner(): Line {
    if (this.#away !== undefined) {
      const since = clockTime(this.#away.since, new Date())
      return [
        {
          text: ` The store does not answer since ${since}: trying again every second. ${this.#away.why}`,
          style: 'red',
        },
      ]
    }
    const [cycle] = this.#deadlocks
    if (cycle !== undefined && this.#opened === undefined) {
      const names = cycle.map(({ key }) => shownName(lockNameOf({ key }))).join(', ')
      return [{ text: ` DEADLOCK over ${names}: Enter on one of them shows who waits for whom`, style: 'red' }]
    }
    return []
  }

  #listLines(): Line[] {
    const { look } = this.#context
    const now = new Date(this.#snapshot?.wall ?? 0)
    const deadlocked = new Set(this.#deadlocks.flat().map(({ key }) => key))
    const view = rowsView(look, { namespaces: this.#view.selection.everywhere, wide: false, deadlocked })
    const { rows, selected } = this.#list.page(this.#height)
    const table = new Table(headingsOf(view), this.#size.columns - 2, droppableHeadings)
    const [headings = [], ...lines] = table.lines(rows.map((row) => cellsOf(row, view, now)))
    const marked = lines.map((line, index): Line => {
      if (index !== selected) return ['  ', ...line]
      return [
        { text: '> ', style: 'inverse' },
        ...line.map((span) => ({ text: textOf(span), style: 'inverse' as const })),
      ]
    })
    const nothing = this.#locks.size === 0 ? '  nobody holds or waits for a lock' : '  no name matches'
    return [['  ', ...headings], ...(marked.length === 0 ? [[nothing]] : marked)]
  }

  #lockLines(key: string, height: number): Line[] {
    const { look } = this.#context
    const lock: LockInfo | undefined = this.#locks.get(key)
    const now = new Date(this.#snapshot?.wall ?? 0)
    const view: ReportView = { look, now, namespace: this.#namespace }
    const deadlocks = this.#deadlocks.filter((cycle) => cycle.some((step) => step.key === key))
    const report = lockReport(shownName(lockNameOf({ key })), lock ?? null, deadlocks, view)
    const lines = report.flatMap((line) => wrapLine([' ', ...line], this.#size.columns))
    this.#scrolled = Math.min(this.#scrolled, Math.max(0, lines.length - height))
    return lines.slice(this.#scrolled)
  }

  #keysLine(): Line {
    if (this.#isTyping) return [{ text: ` /${this.#list.filter}`, style: 'bold' }, '_  Enter: keep  Escape: all']
    if (this.#opened !== undefined) return [{ text: ' j k: scroll  Escape: back to the list  q: quit', style: 'dim' }]
    const filter = this.#list.filter === '' ? '' : `  showing /${this.#list.filter}`
    const text = ` j k: move  Enter: one lock  s: sort (${this.#list.sort})  /: find  q: quit${filter}`
    return [{ text, style: 'dim' }]
  }
}

function textOf(span: string | StyledText): string {
  return typeof span === 'string' ? span : span.text
}

/** How far a key moves, for a page of that many rows. */
const steps: Readonly<Record<string, (page: number) => number>> = {
  j: () => 1,
  '\u001b[B': () => 1,
  '\u001bOB': () => 1,
  k: () => -1,
  '\u001b[A': () => -1,
  '\u001bOA': () => -1,
  '\u001b[6~': (page) => page,
  '\u001b[5~': (page) => -page,
  g: () => -Infinity,
  '\u001b[H': () => -Infinity,
  '\u001b[1~': () => -Infinity,
  G: () => Infinity,
  '\u001b[F': () => Infinity,
  '\u001b[4~': () => Infinity,
}
