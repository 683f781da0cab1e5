import { formatDuration } from '../../core/time/duration.ts'
import { splitStoreKey } from '../../core/contract/scope.ts'
import { atLeast } from '../../api/operators/inspection.ts'
import type { ClaimInfo, LockInfo } from '../../index.ts'
import { shellWords } from '../arguments.ts'
import { describeSince, ownerText, runnerText, whoText } from '../output/holder-text.ts'
import { lockNameOf, shownName } from '../output/lock-name.ts'
import { ageText } from '../output/short-time.ts'
import type { Line, Look } from '../output/style.ts'
import type { DeadlockCycle } from './deadlocks.ts'
import { listedLock, type ListedLock, type Snapshot } from './listing.ts'
import { isUnrenewed } from './unrenewed.ts'

/** What reports need besides the locks. */
export interface ReportView {
  readonly look: Look
  readonly now: Date
  /** The namespace that commands use by default: names of others get theirs. */
  readonly namespace: string
}

/** Who holds a lock since when, who waits, and what to do. */
export function lockReport(
  name: string,
  lock: LockInfo | null,
  deadlocks: readonly DeadlockCycle[],
  view: ReportView,
): Line[] {
  if (lock === null) return [[{ text: name, style: 'bold' }, ' is free: nobody holds it and nobody waits.']]
  const { look } = view
  const lines: Line[] = [
    [
      { text: name, style: 'bold' },
      { text: ` (${lock.key})`, style: 'dim' },
    ],
  ]
  for (const holder of lock.holders) {
    const mark = look.symbols ? (isUnrenewed(holder) ? '✗ ' : '● ') : ''
    const style = isUnrenewed(holder) ? 'red' : 'green'
    lines.push(['  ', { text: `${mark}held by`, style }, ` ${describeClaim(holder, view)}`])
  }
  if (lock.holders.length === 0) lines.push(['  held by nobody: the first in line will have it as soon as it asks'])
  const heldBeside = lock.held - lock.holders.length
  if (heldBeside > 0) lines.push([`  and held by ${atLeast(heldBeside)} more`])
  for (const [index, waiter] of lock.waiters.entries()) {
    lines.push(['  ', { text: `${index + 1}. in line:`, style: 'yellow' }, ` ${describeClaim(waiter, view)}`])
  }
  const waitingBehind = lock.waiting - lock.waiters.length
  if (waitingBehind > 0) lines.push([`  and ${atLeast(waitingBehind)} more in line`])
  for (const cycle of deadlocks) lines.push([], ...deadlockReport(cycle, view))
  // In a deadlock the holder is neither slow nor dead: what to do stands there.
  const advice = deadlocks.length > 0 ? [] : adviceOn(lock, view)
  if (advice.length > 0) lines.push([], [heading('What to do')], ...advice.map((line): Line => ['  ', ...line]))
  return lines
}

function heading(text: string): { text: string; style: 'bold' } {
  return { text, style: 'bold' }
}

function describeClaim(claim: ClaimInfo, { now }: ReportView): string {
  const parts = [runnerText(claim.runner), ...serviceAndOwner(claim)]
  if (claim.mode === 'shared') parts.push(claim.limit === undefined ? 'shared' : `one of ${claim.limit} permits`)
  if (claim.range !== undefined) parts.push(`bytes ${claim.range.start} to ${claim.range.end}`)
  if (claim.acquiredAt !== undefined)
    parts.push(`since ${describeSince(claim.acquiredAt, now)}`, `fence ${claim.fence}`)
  else parts.push(`waiting since ${describeSince(claim.enteredAt, now)}`)
  if (claim.priority !== 0) parts.push(`priority ${claim.priority}`)
  if (claim.leaving !== undefined) parts.push(`asked to leave: ${claim.leaving}`)
  parts.push(claim.expired ? 'expired, to be cleared' : `${formatDuration(claim.remainingMs)} left unless renewed`)
  return parts.join(', ')
}

function serviceAndOwner({ runner }: ClaimInfo): string[] {
  const service = runner.metadata?.['service']
  const owner = ownerText(runner.owner)
  return [
    ...(typeof service === 'string' && service !== '' ? [`service ${service}`] : []),
    ...(owner === undefined ? [] : [`owner ${owner}`]),
  ]
}

/** One deadlock: who waits for whom, and what to do. */
export function deadlockReport(cycle: DeadlockCycle, view: ReportView): Line[] {
  const { look, now } = view
  const mark = look.symbols ? '↻ ' : ''
  const lines: Line[] = [
    [{ text: `${mark}DEADLOCK`, style: 'red' }, ` of ${cycle.length}: each waits for the next, the last for the first`],
  ]
  for (const [index, { key, claim, waitedMs, holds }] of cycle.entries()) {
    const enteredAt = new Date(now.getTime() - waitedMs)
    lines.push(
      [`  ${index + 1}. `, { text: whoText(claim.runner), style: 'bold' }],
      ['     waits for ', { text: nameOf(key, view), style: 'yellow' }, ` since ${describeSince(enteredAt, now)}`],
      holds === undefined
        ? ['     and stands in line before the one above']
        : ['     and holds ', { text: nameOf(holds.key, view), style: 'yellow' }, `, fence ${holds.claim.fence}`],
    )
  }
  lines.push([heading('What to do')])
  lines.push(['  nothing at first: clients that detect deadlocks end one of the waits within seconds. If it stays:'])
  const breaker = cycle.find(({ holds }) => holds !== undefined)
  if (breaker?.holds !== undefined)
    lines.push(['  end the process of 1, or take from it what it holds:'], commandLine(evictionOf(breaker.holds, view)))
  lines.push(['  to prevent it: take these locks with acquireAll, or in the same order everywhere'])
  return lines
}

/** What an operator can do about a lock that others wait for, or whose holder seems dead. */
function adviceOn(lock: LockInfo, view: ReportView): Line[] {
  const silent = lock.holders.find((holder) => isUnrenewed(holder))
  if (silent !== undefined) {
    if (silent.expired) return [['nothing: the lease is over, and the next client that asks gets the lock']]
    const heard = ageText(view.now.getTime() - silent.lastHeartbeat.getTime())
    return [
      [`${whoText(silent.runner)} has not renewed for ${heard}: it is dead, cut off, or renews by hand`],
      [`wait: unless it renews, the lease ends by itself in ${formatDuration(silent.remainingMs)}`],
      ['if you know that it is dead:'],
      commandLine(evictionOf({ key: lock.key, claim: silent }, view)),
    ]
  }
  const [holder] = lock.holders
  if (holder === undefined || lock.waiting === 0) return []
  return [
    [`it renews, so it is alive: look at ${whoText(holder.runner)}`],
    ['if it is stuck, end that process, or take the lock from it (only its fence then protects what it writes to):'],
    commandLine(evictionOf({ key: lock.key, claim: holder }, view)),
  ]
}

function commandLine(words: string): Line {
  return ['    ', { text: words, style: 'cyan' }]
}

/** The command that takes a lock from one holder. */
function evictionOf(
  {
    key,
    claim,
  }: { readonly key: string; readonly claim: Pick<ClaimInfo, 'fence'> & { range?: ClaimInfo['range'] | undefined } },
  { namespace }: ReportView,
): string {
  const { kind, name } = lockNameOf({ key, ...(claim.range && { range: claim.range }) })
  const of = splitStoreKey(key)?.namespace ?? namespace
  const options = [
    ...(kind === 'name' ? [] : ['--kind', kind]),
    ...(of === namespace ? [] : ['--namespace', of]),
    '--fence',
    String(claim.fence),
    '--reason',
    'TEXT',
  ]
  // A name that begins with a dash would be read as an option.
  const words = name.startsWith('-') ? [...options, '--', name] : [name, ...options]
  return `leasehold evict ${shellWords(words)}`
}

/** A lock's name, with its namespace unless it is the default one. */
function nameOf(key: string, { namespace }: ReportView): string {
  const of = splitStoreKey(key)?.namespace
  const name = shownName(lockNameOf({ key }))
  return of === undefined || of === namespace ? name : `${of}/${name}`
}

/** How many of the longest queues and silent holders an overview names. */
const shownMax = 10

/** Who blocks what in the whole listing, since when, and what to do: the worst first. */
export function overviewReport(snapshot: Snapshot, deadlocks: readonly DeadlockCycle[], view: ReportView): Line[] {
  const locks = snapshot.keys.map((key) => listedLock(key, snapshot.now, snapshot.wall))
  const deadlocked = new Set(deadlocks.flat().map(({ key }) => key))
  const silent = locks.filter((lock) => lock.holders.some((holder) => isUnrenewed(holder)))
  const contended = locks.filter(({ waiting, key }) => waiting > 0 && !deadlocked.has(key) && !silentKey(silent, key))
  const waiting = locks.reduce((sum, lock) => sum + lock.waiting, 0)
  const held = locks.filter((lock) => lock.held > 0).length
  const more = snapshot.truncated ? 'at least ' : ''
  const counts = `${more}${plural(locks.length, 'lock')}: ${held} held, ${waiting} waiting`
  const lines: Line[] = [[heading(counts)]]
  for (const cycle of deadlocks.slice(0, shownMax)) lines.push([], ...deadlockReport(cycle, view))
  const left = deadlocks.length - shownMax
  if (left > 0) lines.push([`and ${plural(left, 'more deadlock')}`])
  section(lines, silent.toSorted(byQueue), view, {
    title: 'not renewed: the holder is dead, cut off, or renews by hand',
    style: 'red',
    describe: (lock) => {
      const holder = lock.holders.find((each) => isUnrenewed(each))
      if (holder === undefined) return []
      const ends = holder.expired ? 'expired' : `ends by itself in ${ageText(holder.remainingMs)}`
      const heard = `last renewed ${ageText(view.now.getTime() - holder.lastHeartbeat.getTime())} ago, ${ends}`
      return [[`${whoText(holder.runner)}; ${heard}`], commandLine(evictionOf({ key: lock.key, claim: holder }, view))]
    },
  })
  section(lines, contended.toSorted(byQueue), view, {
    title: 'waited for: the longest queues first',
    style: 'yellow',
    describe: (lock) => {
      const [holder] = lock.holders
      if (holder === undefined) return [['held by nobody: the first in line will have it as soon as it asks']]
      const others = lock.held > 1 ? ` and ${lock.held - 1} more` : ''
      const since = holder.acquiredAt ?? holder.enteredAt
      return [[`held for ${ageText(view.now.getTime() - since.getTime())} by ${whoText(holder.runner)}${others}`]]
    },
  })
  if (lines.length === 1) lines.push(['Nobody waits, and every holder renews: nothing to do.'])
  else if (contended.length > 0) lines.push([], ['What to do about one of them: leasehold explain NAME'])
  return lines
}

function silentKey(silent: readonly LockInfo[], key: string): boolean {
  return silent.some((lock) => lock.key === key)
}

interface Section {
  readonly title: string
  readonly style: 'red' | 'yellow'
  readonly describe: (lock: ListedLock) => Line[]
}

function section(
  lines: Line[],
  locks: readonly ListedLock[],
  view: ReportView,
  { title, style, describe }: Section,
): void {
  if (locks.length === 0) return
  const mark = view.look.symbols ? (style === 'red' ? '✗ ' : '▲ ') : ''
  lines.push([], [{ text: `${mark}${plural(locks.length, 'lock')} ${title}`, style }])
  for (const lock of locks.slice(0, shownMax)) {
    const queue = lock.waiting === 0 ? [] : [`, ${lock.waiting} waiting${longestWait(lock, view)}`]
    lines.push(['  ', heading(nameOf(lock.key, view)), ...queue])
    for (const line of describe(lock)) lines.push(['    ', ...line])
  }
  if (locks.length > shownMax) lines.push([`  and ${locks.length - shownMax} more: leasehold ls --sort waiting`])
}

function longestWait({ waiters }: LockInfo, { now }: ReportView): string {
  const longestMs = waiters.reduce(
    (longest, { enteredAt }) => Math.max(longest, now.getTime() - enteredAt.getTime()),
    0,
  )
  return `, the longest for ${ageText(longestMs)}`
}

function byQueue(first: LockInfo, second: LockInfo): number {
  return second.waiting - first.waiting || (first.key < second.key ? -1 : 1)
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
