import type { TimerTask } from '../../core/time/timer-queue.ts'
import type { ListedKey } from '../../core/contract/driver.ts'
import { messageOf, type DeadlockedOwner } from '../../core/errors.ts'
import { describeScope, splitStoreKey } from '../../core/contract/scope.ts'
import { findDeadlocks, claimsInBoth, type Deadlock, type WaitingClaim } from '../../core/rule/wait-for-graph.ts'
import type { Client } from '../client/client.ts'
import { WaitPublisher, type PublishableWait } from './wait-publisher.ts'
import { readWaits, type WaitsRead } from './wait-reader.ts'

/** An acquisition that waits on behalf of an owner. */
export interface WatchedWait extends PublishableWait {
  giveUpDeadlocked(cycle: readonly DeadlockedOwner[]): void
}

/** Wait before the first read. Most waits are shorter, and cost nothing. */
const firstReadMs = 500
/** A cycle counts only if a second read, after this long, shows it again. */
const secondReadMs = 100
/** Pause after the first read. It doubles up to the second number while no other wait begins; longer where reading is a lot of work. */
const readEveryMs = 500
const readEveryMaxMs = 2000
/** Keys and claims a second that the clients of a namespace read together. */
const workPerSecond = 5000
/** A client reads for a tenth of its time at most, and all clients together list the namespace for a fiftieth. */
const restPerRead = 10
const restPerScan = 50
/** If the first candidate does not give way, the next one does after this long. */
const victimPauseMs = 2000

/**
 * Detects deadlocks while acquisitions of this client wait on behalf of owners, and makes the chosen acquisition give way. Every
 * client of a store sees the same cycle and chooses the same claim, so only the client of that claim acts.
 */
export class DeadlockWatch implements TimerTask {
  timerSlot = -1
  readonly #client: Client
  readonly #waiting = new Set<WatchedWait>()
  /** Where the store keeps no queue, which would show the waits. */
  readonly #publisher: WaitPublisher | undefined
  /** The keys that the first of two reads saw; undefined if no cycle is suspected. */
  #firstRead: readonly ListedKey[] | undefined
  /** When each cycle was first seen, by the names of its candidates. */
  #seenSince = new Map<string, number>()
  #reading = false
  #dueAt = Infinity
  /** The budget allows no read before. */
  #restUntil = 0
  /** The pause after a read that finds nothing. */
  #pauseMs = readEveryMs

  constructor(client: Client) {
    this.#client = client
    if (!client.driver.supports.queue) this.#publisher = new WaitPublisher(client)
  }

  /** Starts watching an acquisition. Without an owner it is not watched: a claim without an owner cannot be linked to other claims. */
  watch(waiting: WatchedWait): void {
    if (waiting.owner === undefined || this.#waiting.has(waiting)) return
    this.#waiting.add(waiting)
    // Cycles are closed by waits that begin.
    this.#pauseMs = readEveryMs
    if (!this.#reading) this.#wakeAt(Math.min(this.#dueAt, this.#client.environment.now() + firstReadMs))
  }

  unwatch(waiting: WatchedWait): void {
    if (!this.#waiting.delete(waiting)) return
    this.#publisher?.withdraw(waiting, [...this.#waiting])
    if (this.#waiting.size > 0) return
    this.#firstRead = undefined
    this.#wakeAt(Infinity)
  }

  wake(): void {
    if (this.#reading) return
    this.#reading = true
    this.#dueAt = Infinity
    void this.#readAndPause()
  }

  async #readAndPause(): Promise<void> {
    const pauseMs = await this.#detect()
    this.#reading = false
    if (this.#waiting.size > 0 && !this.#client.closed) this.#wakeAt(this.#client.environment.now() + pauseMs)
  }

  /** Reads the locks that may be part of a cycle once and acts on deadlocks. Resolves to the pause until the next read. Never rejects. */
  async #detect(): Promise<number> {
    const { environment } = this.#client
    const startedAt = environment.now()
    try {
      const waits = [...this.#waiting]
      const seen = await (this.#publisher?.read(waits) ?? readWaits(this.#client, waits))
      const pauseMs = this.#pauseMs
      const now = environment.now()
      this.#restUntil = now + restAfter(seen, now - startedAt)
      if (this.#firstRead === undefined) {
        if (findDeadlocks(seen).length > 0) {
          this.#firstRead = seen.keys
          // A cycle is rare: it is read again at once, whatever the first read cost.
          this.#restUntil = now
          return secondReadMs
        }
        this.#putLast(seen.followed)
        this.#pauseMs = Math.min(readEveryMaxMs, 2 * this.#pauseMs)
        return pauseMs
      }
      const keys = claimsInBoth(this.#firstRead, seen.keys)
      this.#firstRead = undefined
      this.#pauseMs = readEveryMs
      const { isConfirmed } = seen
      this.#act(findDeadlocks({ now: seen.now, keys }).filter((deadlock) => isConfirmed?.(deadlock) ?? true))
      return pauseMs
    } catch (error) {
      this.#firstRead = undefined
      this.#client.log('debug', `deadlock detection could not read the locks: ${messageOf(error)}`)
      return readEveryMs
    }
  }

  /** The next read begins with others, if there are too many for one. */
  #putLast(waits: readonly WatchedWait[]): void {
    if (waits.length === this.#waiting.size) return
    for (const wait of waits) if (this.#waiting.delete(wait)) this.#waiting.add(wait)
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

  #wakeAt(time: number): void {
    this.#dueAt = Math.max(time, this.#restUntil)
    this.#client.timers.set(this, this.#dueAt)
  }
}

/** The pause that keeps all clients that may be reading, together, within their budget. */
function restAfter({ work, readers, scanned }: WaitsRead, tookMs: number): number {
  const restMs = scanned ? restPerScan * readers * tookMs : restPerRead * tookMs
  return Math.max(restMs, (1000 * work * readers) / workPerSecond)
}

function nameOf({ key, claim }: WaitingClaim): string {
  return JSON.stringify([key, claim.runner.client, claim.runner.owner, claim.enteredAt])
}

function describe({ key, claim }: WaitingClaim): DeadlockedOwner {
  const waitsFor = describeScope({ key: splitStoreKey(key)?.scopeKey ?? key, range: claim.range })
  return { runner: claim.runner, waitsFor }
}
