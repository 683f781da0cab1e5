import { userInfo } from 'node:os'
import type { Lease, Locks, LockInfo } from '../../index.ts'
import type { CommandContext } from '../command.ts'
import { describeSince, runnerText, whoText } from '../output/holder-text.ts'
import { ageText } from '../output/short-time.ts'
import type { Interruption } from '../interruption.ts'
import type { RequestedLock } from './run-request.ts'
import { formatDuration } from '../../core/time/duration.ts'
import type { Target } from '../output/lock-name.ts'
import type { Messages } from '../output/messages.ts'

/** The name of the current user, for waiters to read. */
export function userName(): { user?: string } {
  try {
    return { user: userInfo().username }
  } catch {
    return {} // A container may run under a number without a name.
  }
}

/** Takes the lock, and reports on standard error who holds it and from whom it was taken over. */
export async function takeVisibly(
  locks: Locks,
  wanted: RequestedLock,
  { messages }: CommandContext,
  { signal }: Interruption,
): Promise<Lease> {
  const report = wanted.quiet ? undefined : new WaitingReport(locks, wanted, messages)
  const takeover = locks.on('takeover', ({ after }) => {
    report?.granted()
    const runner = runnerText(after.runner)
    messages.say(`the previous holder did not release the lock (${after.how}): ${runner}. Its work may be half done.`)
  })
  try {
    const lease = await take(locks, wanted, signal)
    report?.granted()
    return lease
  } finally {
    report?.[Symbol.dispose]()
    takeover[Symbol.dispose]()
  }
}

/** Acquires the lock exclusively, shared, or as one permit of a semaphore. */
function take(locks: Locks, wanted: RequestedLock, signal: AbortSignal): Promise<Lease> {
  const { scope, shared, permits } = wanted
  const options = { ...wanted.acquire, signal }
  if (permits !== undefined) return locks.semaphore(scope, permits).acquire(options)
  return shared ? locks.readWrite(scope).read(options) : locks.acquire(scope, options)
}

/** How often to read who is ahead: often at first, when the user is watching. */
const pollMinMs = 1000
const pollMaxMs = 10_000
const pollFactor = 1.3
/** Repeat the last message after this time, even if nothing changed. */
const sayAgainMs = 30_000

/** How often the status line counts on. */
const tickEveryMs = 1000

/**
 * Reports who holds the lock, since when, how many waiters are ahead and how long we wait: on a terminal in one line that is rewritten,
 * otherwise in a line at once, on each change, and now and then.
 */
export class WaitingReport implements Disposable {
  readonly #locks: Locks
  readonly #target: Target
  readonly #messages: Messages
  readonly #waiting: Disposable
  readonly #startedAt = Date.now()
  #timer: NodeJS.Timeout | undefined
  #pauseMs = pollMinMs
  #saidFor = ''
  #saidAt = 0
  #ahead: number | undefined
  #over = false
  #seen: { readonly lock: LockInfo | null; readonly ahead: number } | undefined
  #ticker: NodeJS.Timeout | undefined

  constructor(locks: Locks, target: Target, messages: Messages) {
    this.#locks = locks
    this.#target = target
    this.#messages = messages
    this.#waiting = locks.on('waiting', ({ ahead }) => {
      if (ahead === this.#ahead) return
      this.#ahead = ahead
      void this.#refresh()
    })
  }

  /** Reports how long the wait took, if the wait was reported. */
  granted(): void {
    if (this.#over) return
    this[Symbol.dispose]()
    if (this.#saidAt > 0) this.#messages.say(`granted after ${formatDuration(Date.now() - this.#startedAt)}`)
  }

  [Symbol.dispose](): void {
    this.#over = true
    clearTimeout(this.#timer)
    clearInterval(this.#ticker)
    this.#messages.clearStatus()
    this.#waiting[Symbol.dispose]()
  }

  async #refresh(): Promise<void> {
    clearTimeout(this.#timer)
    // The report is a courtesy: if the store cannot answer now, try again later.
    const lock = await this.#locks.inspect(this.#target.scope).catch(() => undefined)
    if (this.#over) return
    if (lock !== undefined) this.#report(lock)
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#refresh(), this.#pauseMs)
    this.#pauseMs = Math.min(pollMaxMs, this.#pauseMs * pollFactor)
  }

  #report(lock: LockInfo | null): void {
    const now = Date.now()
    const place = lock?.waiters.findIndex((waiter) => waiter.runner.client === this.#locks.runner.client) ?? -1
    const ahead = place < 0 ? (this.#ahead ?? 0) : place
    const state = JSON.stringify([lock?.holders.map(({ fence }) => fence), ahead])
    const isNews = state !== this.#saidFor
    if (isNews) this.#pauseMs = pollMinMs
    this.#saidFor = state
    this.#seen = { lock, ahead }
    if (this.#messages.rewrites) {
      this.#saidAt = now
      this.#ticker ??= setInterval(() => this.#showStatus(), tickEveryMs)
      return this.#showStatus()
    }
    if (!isNews && now - this.#saidAt < sayAgainMs) return
    this.#saidAt = now
    this.#messages.say(describeWait(this.#target, lock, ahead, this.#startedAt, new Date(now)))
  }

  #showStatus(): void {
    if (this.#seen === undefined) return
    const { lock, ahead } = this.#seen
    this.#messages.status(shortWait(this.#target, lock, ahead, this.#startedAt, new Date()))
  }
}

/** One line: who holds the lock, since when, how many are ahead, and after a while how long we have waited. */
function describeWait({ label }: Target, lock: LockInfo | null, ahead: number, startedAt: number, now: Date): string {
  const waitedMs = now.getTime() - startedAt
  const waited = waitedMs < sayAgainMs ? '' : ` for ${formatDuration(waitedMs)}`
  const place = ahead === 0 ? 'next in line' : `${ahead} ahead in line`
  const [holder, ...others] = lock?.holders ?? []
  if (holder === undefined) return `waiting for ${label}${waited}, ${place}`
  const more = others.length === 0 ? '' : ` and ${others.length} more`
  const since = describeSince(holder.acquiredAt ?? holder.enteredAt, now)
  return `waiting for ${label}${waited}, ${place}; held by ${runnerText(holder.runner)}${more} since ${since}`
}

/** The same for the width of a terminal, what changes and what matters most first. */
function shortWait({ label }: Target, lock: LockInfo | null, ahead: number, startedAt: number, now: Date): string {
  const waited = formatDuration(Math.floor((now.getTime() - startedAt) / 1000) * 1000)
  const place = ahead === 0 ? 'next in line' : `${ahead} ahead in line`
  const [holder, ...others] = lock?.holders ?? []
  const start = `waiting ${waited} for ${label}, ${place}`
  if (holder === undefined) return start
  const more = others.length === 0 ? '' : ` and ${others.length} more`
  const heldMs = now.getTime() - (holder.acquiredAt ?? holder.enteredAt).getTime()
  return `${start}; held for ${ageText(heldMs)} by ${whoText(holder.runner)}${more}`
}
