import { userInfo } from 'node:os'
import type { Lease, Locks, LockInfo } from '../../index.ts'
import type { CommandContext } from '../command.ts'
import { runnerText, describeSince } from '../output/holder-text.ts'
import type { Interruption } from '../interruption.ts'
import type { LockRequest } from './run-request.ts'
import { formatDuration } from '../../core/time/duration.ts'
import type { Target } from '../output/lock-name.ts'
import type { Messages } from '../output/messages.ts'

/** The name of whoever runs this, for those who wait. */
export function userName(): { user?: string } {
  try {
    return { user: userInfo().username }
  } catch {
    return {} // A container may run under a number without a name.
  }
}

/** Takes the lock, and says on standard error whom it waits for and whom it took over from. */
export async function takeVisibly(
  locks: Locks,
  wanted: LockRequest,
  { messages }: CommandContext,
  { signal }: Interruption,
): Promise<Lease> {
  const report = wanted.quiet ? undefined : new WaitingReport(locks, wanted, messages)
  const takeover = locks.on('takeover', ({ after }) => {
    report?.granted()
    const who = runnerText(after.runner)
    messages.say(`the holder before did not let go (${after.how}): ${who}. Its work may be half done.`)
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

/** Alone, together with others, or as one of so many. */
function take(locks: Locks, wanted: LockRequest, signal: AbortSignal): Promise<Lease> {
  const { scope, shared, permits } = wanted
  const options = { ...wanted.acquire, signal }
  if (permits !== undefined) return locks.semaphore(scope, permits).acquire(options)
  return shared ? locks.readWrite(scope).read(options) : locks.acquire(scope, options)
}

/** How often to look who is ahead: often at first, when people watch. */
const lookMinMs = 1000
const lookMaxMs = 10_000
const lookFactor = 1.3
/** Said again after this time although nothing has changed. */
const sayAgainMs = 30_000

/** Tells somebody who waits who holds the lock, since when, and how many are ahead: at once and when that changes. */
export class WaitingReport implements Disposable {
  readonly #locks: Locks
  readonly #target: Target
  readonly #messages: Messages
  readonly #waiting: Disposable
  readonly #startedAt = Date.now()
  #timer: NodeJS.Timeout | undefined
  #pauseMs = lookMinMs
  #saidFor = ''
  #saidAt = 0
  #ahead: number | undefined
  #over = false

  constructor(locks: Locks, target: Target, messages: Messages) {
    this.#locks = locks
    this.#target = target
    this.#messages = messages
    this.#waiting = locks.on('waiting', ({ ahead }) => {
      if (ahead === this.#ahead) return
      this.#ahead = ahead
      void this.#look()
    })
  }

  /** Says how long it took, if anything was said about waiting. */
  granted(): void {
    if (this.#over) return
    this[Symbol.dispose]()
    if (this.#saidAt > 0) this.#messages.say(`granted after ${formatDuration(Date.now() - this.#startedAt)}`)
  }

  [Symbol.dispose](): void {
    this.#over = true
    clearTimeout(this.#timer)
    this.#waiting[Symbol.dispose]()
  }

  async #look(): Promise<void> {
    clearTimeout(this.#timer)
    // It only decorates the waiting: a store that cannot answer now will be asked again.
    const lock = await this.#locks.inspect(this.#target.scope).catch(() => undefined)
    if (this.#over) return
    if (lock !== undefined) this.#report(lock)
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#look(), this.#pauseMs)
    this.#pauseMs = Math.min(lookMaxMs, this.#pauseMs * lookFactor)
  }

  #report(lock: LockInfo | null): void {
    const now = Date.now()
    const place = lock?.waiters.findIndex((waiter) => waiter.runner.client === this.#locks.runner.client) ?? -1
    const ahead = place < 0 ? (this.#ahead ?? 0) : place
    const state = JSON.stringify([lock?.holders.map(({ fence }) => fence), ahead])
    if (state === this.#saidFor && now - this.#saidAt < sayAgainMs) {
      if (this.#messages.rewrites) this.#messages.status(`waiting, ${formatDuration(now - this.#startedAt)}`)
      return
    }
    if (state !== this.#saidFor) this.#pauseMs = lookMinMs
    this.#saidFor = state
    this.#saidAt = now
    this.#messages.say(describeWait(this.#target, lock, ahead, new Date(now)))
  }
}

/** One line: who holds it, since when, who is ahead. */
function describeWait({ label }: Target, lock: LockInfo | null, ahead: number, now: Date): string {
  const place = ahead === 0 ? 'next in line' : `${ahead} ahead in line`
  const [holder, ...others] = lock?.holders ?? []
  if (holder === undefined) return `waiting for ${label}, ${place}`
  const more = others.length === 0 ? '' : ` and ${others.length} more`
  const since = describeSince(holder.acquiredAt ?? holder.enteredAt, now)
  return `waiting for ${label}, ${place}; held by ${runnerText(holder.runner)}${more} since ${since}`
}
