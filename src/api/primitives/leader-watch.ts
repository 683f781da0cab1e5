import type { TimerTask } from '../../core/time/timer-queue.ts'
import type { SlotMember } from '../../core/slot-set.ts'
import type { Scope } from '../../core/scope.ts'
import type { Client } from '../client.ts'
import { inspectLock } from '../operators/inspection.ts'
import type { Leader } from './election.ts'

/** Who leads now; null: nobody. */
export async function leaderOf(client: Client, scope: Scope): Promise<Leader | null> {
  const holder = (await inspectLock(client, scope))?.holders.find((one) => !one.expired)
  if (holder === undefined) return null
  return {
    runner: holder.runner,
    term: holder.fence,
    since: holder.acquiredAt ?? holder.enteredAt,
    isMe: holder.runner.client === client.runner.client,
  }
}

/**
 * Tells who leads, first as it is and then whenever that changes. Stores push news only to those who have a claim, so an
 * observer asks now and then; what this client itself brings about it is told at once.
 */
export class LeaderWatch implements TimerTask, SlotMember, AsyncIterableIterator<Leader | null> {
  timerSlot = -1
  setSlot = -1
  readonly #client: Client
  readonly #scope: Scope
  readonly #everyMs: number
  /** Who was told last, and in which term; undefined: nobody was yet. */
  #told: string | undefined
  #closed = false
  #wakeUp: (() => void) | undefined
  /** The call of `next` before: each change is told to one, in the order in which they asked. */
  #asked: Promise<unknown> = Promise.resolve()

  constructor(client: Client, scope: Scope, everyMs: number) {
    this.#client = client
    this.#scope = scope
    this.#everyMs = everyMs
    client.runtime.waiters.add(this)
  }

  get closed(): boolean {
    return this.#closed
  }

  next(): Promise<IteratorResult<Leader | null>> {
    const change = this.#asked.then(() => this.#change())
    this.#asked = change
    return change
  }

  /** Never rejects. */
  async #change(): Promise<IteratorResult<Leader | null>> {
    while (!this.#closed) {
      const leader = await this.#look()
      if (this.#closed) break
      if (leader !== 'unknown' && nameOf(leader) !== this.#told) {
        this.#told = nameOf(leader)
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

  /** Something may have changed: look again. */
  wake(): void {
    this.#wakeUp?.()
  }

  /** Ends the loop over it. Repeatable. */
  close(): void {
    this.#closed = true
    this.#client.runtime.waiters.delete(this)
    this.#wakeUp?.()
  }

  /** A store that cannot be asked says nothing about who leads. */
  async #look(): Promise<Leader | null | 'unknown'> {
    try {
      return await leaderOf(this.#client, this.#scope)
    } catch {
      return 'unknown'
    }
  }

  async #pause(): Promise<void> {
    const { timers, environment } = this.#client.runtime
    // Somebody awaits the next change: that keeps the process alive.
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
