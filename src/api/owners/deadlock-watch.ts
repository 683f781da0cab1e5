import type { TimerTask } from '../../core/time/timer-queue.ts'
import type { KeyPage, ListedKey } from '../../core/contract/driver.ts'
import { messageOf, type DeadlockedOwner } from '../../core/errors.ts'
import { describeScope, splitStoreKey, storeKey } from '../../core/contract/scope.ts'
import { findDeadlocks, claimsInBoth, type Deadlock, type WaitingClaim } from '../../core/rule/wait-for-graph.ts'
import type { Client } from '../client/client.ts'

/** An acquisition that waits on behalf of an owner. */
export interface WatchedWait {
  readonly key: string
  readonly owner: string | undefined
  readonly claimId: string | undefined
  giveUpDeadlocked(cycle: readonly DeadlockedOwner[]): void
}

/** Wait before the first read. Most waits are shorter, and cost nothing. */
const firstReadMs = 500
/** A cycle counts only if a second read, after this long, shows it again. */
const secondReadMs = 100
/** Pause between reads; longer where a read takes long. */
const readEveryMs = 500
/** If the first candidate does not give way, the next one does after this long. */
const victimPauseMs = 2000
const pagesMax = 50

/**
 * Detects deadlocks while acquisitions of this client wait on behalf of owners, and makes the chosen acquisition give way. Every
 * client of a store sees the same cycle and chooses the same claim, so only the client of that claim acts.
 */
export class DeadlockWatch implements TimerTask {
  timerSlot = -1
  readonly #client: Client
  readonly #waiting = new Set<WatchedWait>()
  /** The keys that the first of two reads saw; undefined if no cycle is suspected. */
  #firstRead: readonly ListedKey[] | undefined
  /** When each cycle was first seen, by the names of its candidates. */
  #seenSince = new Map<string, number>()
  #reading = false

  constructor(client: Client) {
    this.#client = client
  }

  /** Starts watching an acquisition. Without an owner it is not watched: a claim without an owner cannot be linked to other claims. */
  watch(waiting: WatchedWait): void {
    if (waiting.owner === undefined || this.#waiting.has(waiting)) return
    this.#waiting.add(waiting)
    if (this.#waiting.size === 1 && !this.#reading) this.#wakeIn(firstReadMs)
  }

  unwatch(waiting: WatchedWait): void {
    if (!this.#waiting.delete(waiting) || this.#waiting.size > 0) return
    this.#firstRead = undefined
    this.#client.timers.set(this, Infinity)
  }

  wake(): void {
    if (this.#reading) return
    this.#reading = true
    void this.#readAndPause()
  }

  async #readAndPause(): Promise<void> {
    const pauseMs = await this.#detect()
    this.#reading = false
    if (this.#waiting.size > 0 && !this.#client.closed) this.#wakeIn(pauseMs)
  }

  /** Reads the locks once and acts on deadlocks. Resolves to the pause until the next read. Never rejects. */
  async #detect(): Promise<number> {
    const { environment } = this.#client
    const startedAt = environment.now()
    try {
      const seen = await this.#readAll()
      const pauseMs = Math.max(readEveryMs, 10 * (environment.now() - startedAt))
      if (this.#firstRead === undefined) {
        if (findDeadlocks(seen).length === 0) return pauseMs
        this.#firstRead = seen.keys
        return secondReadMs
      }
      const keys = claimsInBoth(this.#firstRead, seen.keys)
      this.#firstRead = undefined
      this.#act(findDeadlocks({ now: seen.now, keys }))
      return pauseMs
    } catch (error) {
      this.#firstRead = undefined
      this.#client.log('debug', `deadlock detection could not read the locks: ${messageOf(error)}`)
      return readEveryMs
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
      const place = candidates.findIndex((claim) => this.#ownWait(claim) !== undefined)
      const chosen = candidates[place]
      if (chosen === undefined || now - since < place * victimPauseMs) continue
      seen.delete(name)
      this.#ownWait(chosen)?.giveUpDeadlocked(cycle.map(describe))
    }
    this.#seenSince = seen
  }

  /** The acquisition of this client that made the claim. Servers do not show ids: then key, client and owner must match. */
  #ownWait({ key, claim }: WaitingClaim): WatchedWait | undefined {
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
