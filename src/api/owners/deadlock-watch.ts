import type { TimerTask } from '../../core/time/timer-queue.ts'
import type { KeyPage, ListedKey } from '../../core/contract/driver.ts'
import { messageOf, type DeadlockedOwner } from '../../core/errors.ts'
import { describeScope, splitStoreKey, storeKey } from '../../core/contract/scope.ts'
import { findDeadlocks, claimsInBoth, type Deadlock, type WaitingClaim } from '../../core/rule/wait-for-graph.ts'
import type { Client } from '../client/client.ts'

/** Somebody who waits on behalf of an owner. */
export interface WatchedWait {
  readonly key: string
  readonly owner: string | undefined
  readonly claimId: string | undefined
  giveUpDeadlocked(cycle: readonly DeadlockedOwner[]): void
}

/** Most waits are shorter than this and cost nothing. */
const firstLookMs = 500
/** A cycle must stand for so long to be believed. */
const secondLookMs = 100
/** Between looks; longer where a look takes long. */
const everyMs = 500
/** If the one that should give way does not, the next in order does, after this long. */
const victimPauseMs = 2000
const pagesMax = 50

/**
 * Looks, while somebody waits on behalf of an owner, whether it waits for ever, and tells the one that is to give way.
 * Every client of a store sees the same cycle and chooses the same claim, so only its own client has to act.
 */
export class DeadlockWatch implements TimerTask {
  timerSlot = -1
  readonly #client: Client
  readonly #waiting = new Set<WatchedWait>()
  /** What the first of two looks saw. */
  #before: readonly ListedKey[] | undefined
  /** Since when a cycle has stood, by the one who is to give way. */
  #seenSince = new Map<string, number>()
  #looking = false

  constructor(client: Client) {
    this.#client = client
  }

  /** Claims without an owner are not watched: what they hold, nobody can be said to wait with. */
  watch(waiting: WatchedWait): void {
    if (waiting.owner === undefined || this.#waiting.has(waiting)) return
    this.#waiting.add(waiting)
    if (this.#waiting.size === 1 && !this.#looking) this.#wakeIn(firstLookMs)
  }

  unwatch(waiting: WatchedWait): void {
    if (!this.#waiting.delete(waiting) || this.#waiting.size > 0) return
    this.#before = undefined
    this.#client.timers.set(this, Infinity)
  }

  wake(): void {
    if (this.#looking) return
    this.#looking = true
    void this.#lookAndRest()
  }

  async #lookAndRest(): Promise<void> {
    const restMs = await this.#look()
    this.#looking = false
    if (this.#waiting.size > 0 && !this.#client.closed) this.#wakeIn(restMs)
  }

  /** Looks once, and gives the time until the next look. Never rejects. */
  async #look(): Promise<number> {
    const { environment } = this.#client
    const startedAt = environment.now()
    try {
      const seen = await this.#readAll()
      const restMs = Math.max(everyMs, 10 * (environment.now() - startedAt))
      if (this.#before === undefined) {
        if (findDeadlocks(seen).length === 0) return restMs
        this.#before = seen.keys
        return secondLookMs
      }
      const keys = claimsInBoth(this.#before, seen.keys)
      this.#before = undefined
      this.#act(findDeadlocks({ now: seen.now, keys }))
      return restMs
    } catch (error) {
      this.#before = undefined
      this.#client.log('debug', `deadlocks could not be looked for: ${messageOf(error)}`)
      return everyMs
    }
  }

  async #readAll(): Promise<KeyPage> {
    const { driver, namespace } = this.#client
    const keys: ListedKey[] = []
    let after: string | undefined
    let now = 0
    for (let pages = 0; pages < pagesMax; pages += 1) {
      const page = await driver.list({
        prefix: storeKey(namespace, ''),
        limit: 1000,
        ...(after !== undefined && { after }),
      })
      keys.push(...page.keys)
      ;({ now } = page)
      after = page.next
      if (after === undefined) break
    }
    return { now, keys }
  }

  #act(deadlocks: readonly Deadlock[]): void {
    const now = this.#client.environment.now()
    const seen = new Map<string, number>()
    for (const { candidates, cycle } of deadlocks) {
      const name = candidates.map(nameOf).join()
      const since = this.#seenSince.get(name) ?? now
      seen.set(name, since)
      const place = candidates.findIndex((claim) => this.#mine(claim) !== undefined)
      const chosen = candidates[place]
      if (chosen === undefined || now - since < place * victimPauseMs) continue
      seen.delete(name)
      this.#mine(chosen)?.giveUpDeadlocked(cycle.map(describe))
    }
    this.#seenSince = seen
  }

  /** The one of ours that made this claim. A server does not show ids: then the rest must do. */
  #mine({ key, claim }: WaitingClaim): WatchedWait | undefined {
    if (claim.runner.client !== this.#client.runner.client) return undefined
    for (const waiting of this.#waiting) {
      if (waiting.key !== key || waiting.owner !== claim.runner.owner) continue
      if (claim.id === '' || claim.id === waiting.claimId) return waiting
    }
    return undefined
  }

  #wakeIn(milliseconds: number): void {
    const { timers, environment } = this.#client
    timers.set(this, environment.now() + milliseconds)
  }
}

function nameOf({ key, claim }: WaitingClaim): string {
  return JSON.stringify([key, claim.runner.client, claim.runner.owner, claim.enteredAt])
}

function describe({ key, claim }: WaitingClaim): DeadlockedOwner {
  const waitsFor = describeScope({ key: splitStoreKey(key)?.scopeKey ?? key, range: claim.range })
  return { runner: claim.runner, waitsFor }
}
