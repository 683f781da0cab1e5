import { listenForAbort, stopListeningForAbort } from '../client/abort-listeners.ts'
import type { TimerTask } from '../../core/time/timer-queue.ts'
import { settledWithin } from '../../core/time/bounded.ts'
import { positiveMs } from '../../core/time/duration.ts'
import { LeaseholdError, messageOf } from '../../core/errors.ts'
import { callForeign } from '../client/events.ts'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import type { SlotMember } from '../../core/client/slot-set.ts'
import { describeScope, named, type Scope } from '../../core/contract/scope.ts'
import { exclusively } from '../client/acquisition.ts'
import type { Election, ElectionOptions, Leader, Term } from './election.ts'
import type { LeaseHandle } from '../lease/lease-handle.ts'
import { checkWaitOptions, waitMsOf, type AcquireOptions, type WaitOptions } from '../options.ts'
import { asOwner } from '../owners/current-owner.ts'
import type { Acquirer } from '../client/acquirer.ts'
import type { Client } from '../client/client.ts'
import { inspectLock } from '../operators/inspection.ts'

const electionNames: OptionNames<ElectionOptions> = {
  ttl: true,
  lease: true,
  heartbeat: true,
  priority: true,
  grace: true,
  maxHold: true,
  progress: true,
  metadata: true,
  onElected: true,
  onDeposed: true,
  observeEvery: true,
}

/** One candidacy: from `campaign` to `resign`. */
interface Candidacy {
  /** Aborted by `resign`. */
  readonly abort: AbortController
  /** The campaign under way, if any. */
  campaigning: Promise<Term> | undefined
}

/** Pause before the next campaign after one failed. */
const againMs = 1000

/** A candidate in an election: holds the lock while it leads, and campaigns again after it was deposed. */
export class LeaderElection implements Election, TimerTask, SlotMember {
  timerSlot = -1
  setSlot = -1
  readonly scope: Scope
  readonly #acquirer: Acquirer
  readonly #options: ElectionOptions
  readonly #acquire: AcquireOptions
  readonly #observeEveryMs: number
  readonly #watches = new Set<LeaderWatch>()
  /** Our current term, until we learn of its end. */
  #term: LeaseHandle | undefined
  #candidacy: Candidacy | undefined

  constructor(acquirer: Acquirer, name: string, options: ElectionOptions) {
    checkOptions(options, electionNames, 'elect')
    const { onElected: _elected, onDeposed: _deposed, observeEvery = 1000, ...acquire } = options
    // Check the options now, not when the leader is lost.
    acquirer.terms(acquire)
    this.scope = named(`leader:${name}`)
    this.#acquirer = acquirer
    this.#options = options
    this.#acquire = acquire
    this.#observeEveryMs = positiveMs(observeEvery, 'observeEvery')
  }

  get isLeader(): boolean {
    return this.#term?.held === true
  }

  get term(): number | undefined {
    return this.isLeader ? this.#term?.fence : undefined
  }

  campaign(options: WaitOptions = {}): Promise<Term> {
    const candidacy = (this.#candidacy ??= { abort: new AbortController(), campaigning: undefined })
    if (this.#term?.held === true) return Promise.resolve(this.#term)
    if (candidacy.campaigning !== undefined) return this.#join(candidacy, candidacy.campaigning, options)
    candidacy.campaigning = this.#campaign(candidacy, options).catch((error: unknown) => {
      // After a resignation, another candidacy may have begun meanwhile.
      if (this.#candidacy === candidacy) this.#candidacy = undefined
      throw error
    })
    return candidacy.campaigning
  }

  /** Awaits a campaign that another call began. If that call gives up first, this call campaigns itself. */
  async #join(candidacy: Candidacy, campaigning: Promise<Term>, options: WaitOptions): Promise<Term> {
    checkWaitOptions(options, 'campaign')
    const { environment } = this.#acquirer.client
    const { wait, signal } = options
    const waitMs = wait === undefined ? Infinity : waitMsOf(wait)
    const until = environment.now() + waitMs
    let giveUp = (): void => {}
    const aborted = new Promise<'aborted'>((resolve) => {
      giveUp = () => resolve('aborted')
    })
    if (signal?.aborted === true) giveUp()
    else if (signal !== undefined) listenForAbort(signal, giveUp)
    const ended = Promise.race([aborted, campaigning.catch((error: unknown) => ({ error }))])
    const outcome = await (waitMs === Infinity ? ended : settledWithin(environment, waitMs, ended))
    if (signal !== undefined) stopListeningForAbort(signal, giveUp)
    if (outcome === undefined) {
      throw new LeaseholdError('TIMEOUT', `"${describeScope(this.scope)}" was not won within ${waitMs} ms.`)
    }
    if (outcome === 'aborted') throw new LeaseholdError('ABORTED', 'The signal of this campaign was aborted.')
    if (!('error' in outcome)) return outcome
    const { error } = outcome
    const callerGaveUp = error instanceof LeaseholdError && (error.code === 'TIMEOUT' || error.code === 'ABORTED')
    if (!callerGaveUp || candidacy.abort.signal.aborted) throw error
    return this.campaign({ ...options, ...(wait !== undefined && { wait: Math.max(0, until - environment.now()) }) })
  }

  async tryCampaign(): Promise<boolean> {
    if (this.isLeader) return true
    const options: AcquireOptions = { ...this.#acquire, wait: 0 }
    const lease = await asOwner(undefined, () => this.#acquirer.tryAcquire(this.scope, exclusively, options))
    if (lease?.held === true) this.#enterOffice(lease)
    return this.isLeader
  }

  async resign(): Promise<void> {
    this.#candidacy?.abort.abort(new LeaseholdError('ABORTED', 'The candidate has resigned.'))
    this.#candidacy = undefined
    this.#acquirer.client.timers.set(this, Infinity)
    const term = this.#term
    if (term === undefined) return
    const released = term.release()
    this.#leaveOffice(term, 'resigned')
    await released
  }

  leader(): Promise<Leader | null> {
    return leaderOf(this.#acquirer.client, this.scope)
  }

  [Symbol.asyncIterator](): AsyncIterator<Leader | null> {
    this.#acquirer.client.refuseIfClosed()
    const watch = new LeaderWatch(this.#acquirer.client, this.scope, this.#observeEveryMs)
    this.#watches.add(watch)
    return watch
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const watch of this.#watches) watch.close()
    await this.resign()
  }

  /** The client is closing: the candidate leaves office. */
  close(): void {
    this.#candidacy = undefined
    if (this.#term !== undefined) this.#leaveOffice(this.#term, 'closed')
  }

  /** Campaigns again after a pause. */
  wake(): void {
    this.#standAgain()
  }

  async #campaign(candidacy: Candidacy, waitOptions: WaitOptions): Promise<Term> {
    try {
      return await this.#win(candidacy.abort.signal, waitOptions)
    } finally {
      candidacy.campaigning = undefined
    }
  }

  async #win(resigned: AbortSignal, waitOptions: WaitOptions): Promise<Term> {
    checkWaitOptions(waitOptions, 'campaign')
    const { wait, signal } = waitOptions
    const options: AcquireOptions = {
      ...this.#acquire,
      ...(wait !== undefined && { wait }),
      signal: signal === undefined ? resigned : AbortSignal.any([signal, resigned]),
    }
    // Without an owner: the caller goes on with other work meanwhile.
    const stand = () => asOwner(undefined, () => this.#acquirer.acquire(this.scope, exclusively, options))
    let lease = await stand()
    // A grant that took long to arrive may have expired: only a held lease makes a leader.
    while (!lease.held) lease = await stand()
    if (resigned.aborted) {
      // `resign` was called between the grant and now.
      await lease.release()
      throw resigned.reason
    }
    this.#enterOffice(lease)
    return lease
  }

  #standAgain(): void {
    const candidacy = this.#candidacy
    if (candidacy === undefined || candidacy.campaigning !== undefined || this.#acquirer.client.closed) return
    candidacy.campaigning = this.#campaign(candidacy, {})
    candidacy.campaigning.catch((error: unknown) => {
      const { client } = this.#acquirer
      if (candidacy.abort.signal.aborted || client.closed) return
      client.log('warn', `the campaign for ${this.scope.key} goes on after: ${messageOf(error)}`)
      client.timers.set(this, client.environment.now() + againMs)
    })
  }

  #enterOffice(lease: LeaseHandle): void {
    this.#term = lease
    this.#acquirer.client.elections.add(this)
    lease.signal.addEventListener('abort', () => this.#leaveOffice(lease, lease.loss?.reason ?? 'lost'), { once: true })
    this.#call(this.#options.onElected, lease)
    this.#wakeWatches()
  }

  #leaveOffice(lease: LeaseHandle, reason: string): void {
    if (this.#term !== lease) return
    this.#term = undefined
    this.#acquirer.client.elections.delete(this)
    this.#call(this.#options.onDeposed, lease, reason)
    this.#wakeWatches()
    this.#standAgain()
  }

  #wakeWatches(): void {
    for (const watch of this.#watches) {
      if (watch.closed) this.#watches.delete(watch)
      else watch.wake()
    }
  }

  /** Calls a listener. What it throws is logged. */
  #call<Arguments extends unknown[]>(
    listener: ((...given: Arguments) => unknown) | undefined,
    ...given: Arguments
  ): void {
    callForeign(
      () => listener?.(...given),
      (error) => this.#acquirer.client.log('warn', `A listener of ${this.scope.key} threw: ${messageOf(error)}`),
    )
  }
}

/** The current leader; null if there is none. */
export async function leaderOf(client: Client, scope: Scope): Promise<Leader | null> {
  const holder = (await inspectLock(client, scope))?.holders.find((claim) => !claim.expired)
  if (holder === undefined) return null
  return {
    runner: holder.runner,
    term: holder.fence,
    since: holder.acquiredAt ?? holder.enteredAt,
    isMe: holder.runner.client === client.runner.client,
  }
}

/**
 * Yields the leader, first the current one and then every change. Stores notify only clients that have a claim, so an observer
 * polls; changes that this client makes itself are seen at once.
 */
export class LeaderWatch implements TimerTask, SlotMember, AsyncIterableIterator<Leader | null> {
  timerSlot = -1
  setSlot = -1
  readonly #client: Client
  readonly #scope: Scope
  readonly #everyMs: number
  /** The leader that was yielded last, with its term; undefined before the first. */
  #yielded: string | undefined
  #closed = false
  #wakeUp: (() => void) | undefined
  /** The previous call of `next`: each change goes to one call, in the order of the calls. */
  #previous: Promise<unknown> = Promise.resolve()

  constructor(client: Client, scope: Scope, everyMs: number) {
    this.#client = client
    this.#scope = scope
    this.#everyMs = everyMs
    client.elections.add(this)
  }

  get closed(): boolean {
    return this.#closed
  }

  next(): Promise<IteratorResult<Leader | null>> {
    const change = this.#previous.then(() => this.#change())
    this.#previous = change
    return change
  }

  /** The next change of leader. Never rejects. */
  async #change(): Promise<IteratorResult<Leader | null>> {
    while (!this.#closed) {
      const leader = await this.#read()
      if (this.#closed) break
      if (leader !== 'unknown' && nameOf(leader) !== this.#yielded) {
        this.#yielded = nameOf(leader)
        return { done: false, value: leader }
      }
      await this.#pause()
    }
    return { done: true, value: undefined }
  }

  async return(): Promise<IteratorResult<Leader | null>> {
    this.close()
    return { done: true, value: undefined }
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  /** The leader may have changed: reads again. */
  wake(): void {
    this.#wakeUp?.()
  }

  /** Ends the loop over this watch. Repeatable. */
  close(): void {
    this.#closed = true
    this.#client.elections.delete(this)
    this.#wakeUp?.()
  }

  /** The current leader; `unknown` if the store could not be read. */
  async #read(): Promise<Leader | null | 'unknown'> {
    try {
      return await leaderOf(this.#client, this.#scope)
    } catch {
      return 'unknown'
    }
  }

  async #pause(): Promise<void> {
    const { timers, environment } = this.#client
    // A caller awaits the next change: keep the process alive.
    timers.hold()
    await new Promise<void>((resolve) => {
      this.#wakeUp = resolve
      timers.set(this, environment.now() + this.#everyMs)
    })
    this.#wakeUp = undefined
    timers.set(this, Infinity)
    timers.unhold()
  }
}

function nameOf(leader: Leader | null): string {
  return leader === null ? 'nobody' : `${leader.term} ${leader.runner.incarnation} ${leader.runner.client}`
}
