import { overlaps } from '../../core/rule/conflict.ts'
import type { ClaimInfo } from '../../index.ts'
import { clockTime, ownerText, serviceOf } from '../output/holder-text.ts'
import { lockNameOf } from '../output/lock-name.ts'
import { ageText } from '../output/short-time.ts'
import type { Look } from '../output/style.ts'
import type { Cell } from '../output/table.ts'
import type { ListedLock } from './listing.ts'
import { isUnrenewed } from './unrenewed.ts'

/** One holder of a lock, or a lock that is only waited for, as a row of a table. */
export interface InspectedLock {
  readonly key: string
  readonly namespace: string
  readonly name: string
  readonly kind: string
  readonly mode: string
  readonly holder: ClaimInfo | undefined
  /** Who holds it, or how many more do. */
  readonly holderText: string
  readonly service: string
  readonly ageMs: number
  /** How many wait; undefined in rows that repeat a lock. */
  readonly waiting: number | undefined
  readonly waitingText: string
}

/** What the rows of a table show, and how. */
export interface RowsView {
  readonly namespaces: boolean
  readonly wide: boolean
  readonly symbols: boolean
  /** The keys of the locks of a deadlock, which have a mark of their own. */
  readonly deadlocked?: ReadonlySet<string> | undefined
}

export const sortWords = ['name', 'age', 'waiting', 'service'] as const
export type SortWord = (typeof sortWords)[number]

/** One row for each holder; a lock that has only waiters gets one row. */
export function rowsOf(lock: ListedLock, now: Date): InspectedLock[] {
  const { key, namespace, holders, waiters, held, waiting } = lock
  const named = (range?: ClaimInfo['range']) => ({ key, namespace, ...lockNameOf({ key, ...(range && { range }) }) })
  const rows = holders.map((holder) => ({
    ...named(holder.range),
    mode: modeText(holder),
    holder,
    holderText: holderText(holder),
    service: serviceOf(holder.runner) ?? '-',
    ageMs: now.getTime() - (holder.acquiredAt ?? holder.enteredAt).getTime(),
    ...waitingFor(holder, lock),
  }))
  const without = { ...named(), mode: '-', holder: undefined, service: '-' }
  if (holders.length === 0) {
    const ageMs = waiters[0] === undefined ? 0 : now.getTime() - waiters[0].enteredAt.getTime()
    return [{ ...without, holderText: '-', ageMs, waiting, waitingText: String(waiting) }]
  }
  if (held === holders.length) return rows
  const more = `and ${held - holders.length} more`
  return [...rows, { ...without, holderText: more, ageMs: 0, waiting: undefined, waitingText: '-' }]
}

/** How many wait for this holder. Of a range, those that are not shown cannot be counted. */
function waitingFor(
  holder: ClaimInfo,
  { waiters, waiting }: ListedLock,
): Pick<InspectedLock, 'waiting' | 'waitingText'> {
  if (holder.range === undefined) return { waiting, waitingText: String(waiting) }
  // A waiter for other bytes of the inode does not wait for this holder.
  const count = waiters.filter((waiter) => overlaps(waiter, holder)).length
  return { waiting: count, waitingText: waiting > waiters.length ? `${count} or more` : String(count) }
}

function modeText({ mode, limit }: ClaimInfo): string {
  return mode === 'shared' && limit !== undefined ? `1 of ${limit}` : mode
}

/** `alice@build-7:4711`: enough to find the process. */
function holderText({ runner: { host, pid, metadata } }: ClaimInfo): string {
  const user = metadata?.['user']
  return `${typeof user === 'string' && user !== '' ? `${user}@` : ''}${host}:${pid}`
}

/** Negative: the first comes before the second. Names break ties, so that the order is the same each time. */
export function compareRows(sort: SortWord): (first: InspectedLock, second: InspectedLock) => number {
  const byName = (first: InspectedLock, second: InspectedLock): number =>
    compareText(first.namespace, second.namespace) ||
    compareText(first.name, second.name) ||
    compareText(first.kind, second.kind) ||
    (first.holder?.fence ?? Infinity) - (second.holder?.fence ?? Infinity) ||
    0
  switch (sort) {
    case 'name':
      return byName
    case 'age':
      return (first, second) => second.ageMs - first.ageMs || byName(first, second)
    case 'waiting':
      return (first, second) => (second.waiting ?? -1) - (first.waiting ?? -1) || byName(first, second)
    case 'service':
      return (first, second) => compareText(first.service, second.service) || byName(first, second)
  }
}

const digits = new Intl.Collator('en', { numeric: true })

function compareText(first: string, second: string): number {
  return digits.compare(first, second)
}

export function headingsOf({ namespaces, wide, symbols }: RowsView): string[] {
  return [
    ...(symbols ? [''] : []),
    ...(namespaces ? ['NAMESPACE'] : []),
    'NAME',
    'KIND',
    'MODE',
    'HOLDER',
    'SERVICE',
    'AGE',
    'LEFT',
    'WAITING',
    ...(wide ? ['FENCE', 'SINCE', 'PRIORITY', 'OWNER', 'RUNNER'] : []),
  ]
}

/** Columns that a narrow terminal leaves out, first to last. */
export const droppableHeadings = [
  'RUNNER',
  'OWNER',
  'PRIORITY',
  'KIND',
  'LEFT',
  'MODE',
  'SERVICE',
  'SINCE',
  'FENCE',
  'HOLDER',
] as const

export function cellsOf(row: InspectedLock, { namespaces, wide, symbols, deadlocked }: RowsView, now: Date): Cell[] {
  const { holder, waiting = 0 } = row
  const isContended = waiting > 0
  return [
    ...(symbols ? [deadlocked?.has(row.key) === true ? deadlockMark : markOf(row)] : []),
    ...(namespaces ? [{ text: row.namespace, style: 'dim' } as const] : []),
    isContended ? { text: row.name, style: 'bold' } : row.name,
    { text: row.kind, style: 'dim' },
    row.mode,
    row.holderText,
    { text: row.service, style: 'cyan' },
    ageText(row.ageMs),
    leftCell(holder),
    isContended ? { text: row.waitingText, style: 'yellow' } : row.waitingText,
    ...(wide && holder !== undefined
      ? [
          String(holder.fence),
          clockTime(holder.acquiredAt ?? holder.enteredAt, now),
          String(holder.priority),
          ownerText(holder.runner.owner) ?? '-',
          holder.runner.id,
        ]
      : wide
        ? ['-', '-', '-', '-', '-']
        : []),
  ]
}

function leftCell(holder: ClaimInfo | undefined): Cell {
  if (holder === undefined) return '-'
  if (holder.expired) return { text: 'expired', style: 'red' }
  const left = ageText(holder.remainingMs)
  return isUnrenewed(holder) ? { text: left, style: 'red' } : left
}

const deadlockMark: Cell = { text: '⟳', style: 'red' }

function markOf({ holder, waiting = 0 }: InspectedLock): Cell {
  if (holder === undefined) return { text: '○', style: 'dim' }
  if (isUnrenewed(holder)) return { text: '✗', style: 'red' }
  return waiting > 0 ? { text: '▲', style: 'yellow' } : { text: '●', style: 'green' }
}

/** The view of a command's output. */
export function rowsView(look: Look, shown: Omit<RowsView, 'symbols'>): RowsView {
  return { ...shown, symbols: look.symbols }
}
