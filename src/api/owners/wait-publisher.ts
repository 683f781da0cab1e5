import type { ListedClaim, ListedKey, OwnerHold, OwnerWait, Runner, SharedWait } from '../../core/contract/driver.ts'
import { isOwn } from '../../core/contract/owner-name.ts'
import type { Client } from '../client/client.ts'
import type { OwnersWait, WaitsRead } from './wait-reader.ts'

/** A wait that can be published: its place in a cycle shows only together with its mode and its runner. */
export interface PublishableWait extends OwnersWait {
  readonly wanted: Pick<OwnerWait, 'mode' | 'runner'>
}

/** Locks that one wait names at most: a cycle through further ones is not found. */
const holdsMax = 200
/** Waits that one client publishes at most. */
const waitsMax = 100

/**
 * Publishes this client's waits where the store keeps no queue, and reads those of the other clients. Every client publishes what it
 * knows itself: what its owners hold, and what they wait for. An owner that holds nothing is part of no cycle, and costs nothing.
 */
export class WaitPublisher {
  readonly #client: Client
  readonly #ids = new Map<OwnersWait, string>()
  #lastId = 0

  constructor(client: Client) {
    this.#client = client
  }

  async read<Wait extends PublishableWait>(waits: readonly Wait[]): Promise<WaitsRead<Wait>> {
    const nothing = { followed: waits, now: 0, keys: [], work: 0, readers: 1, scanned: false }
    const published = waits.flatMap((wait) => this.#describe(wait) ?? []).slice(0, waitsMax)
    const shared =
      published.length > 0 ? await this.#client.driver.shareWaits?.(this.#client.runner.client, published) : undefined
    if (shared === undefined) return nothing
    const byClaim = new Map<string, SharedWait>()
    for (const wait of shared.waits) byClaim.set(nameOf(wait.wait.key, wait.wait.runner, wait.enteredAt), wait)
    return {
      ...nothing,
      now: shared.now,
      keys: keysOf(shared.waits, shared.now),
      work: shared.waits.length,
      readers: new Set(shared.waits.map(({ wait }) => wait.runner.client)).size,
      isConfirmed: ({ candidates }) =>
        atOneTime(candidates.map(({ key, claim }) => byClaim.get(nameOf(key, claim.runner, claim.enteredAt)))),
    }
  }

  /** The wait is over. If it was published, the store is told, so that no other client counts on it. */
  withdraw(wait: OwnersWait, left: readonly PublishableWait[]): void {
    if (!this.#ids.delete(wait) || this.#client.closed) return
    const published = left.filter((other) => this.#ids.has(other)).flatMap((other) => this.#describe(other) ?? [])
    this.#client.driver.shareWaits?.(this.#client.runner.client, published).catch(() => {
      // Nobody counts on a wait that was not published for ten seconds.
    })
  }

  #describe(wait: PublishableWait): OwnerWait | undefined {
    const holds = this.#holdsOf(wait.owner)
    if (holds.length === 0) return undefined
    let id = this.#ids.get(wait)
    if (id === undefined) this.#ids.set(wait, (id = String((this.#lastId += 1))))
    return { id, key: wait.key, ...wait.wanted, holds }
  }

  #holdsOf(owner: string | undefined): readonly OwnerHold[] {
    const holds: OwnerHold[] = []
    for (const { claim, runner, terms, held, fence } of this.#client.owners.of(owner)) {
      if (!isOwn(owner, runner.owner) || terms.detached === true || !held || runner.owner === undefined) continue
      holds.push({ key: claim.key, mode: claim.mode, fence, owner: runner.owner })
      if (holds.length === holdsMax) break
    }
    return holds
  }
}

function nameOf(key: string, { client, owner }: Runner, enteredAt: number): string {
  return JSON.stringify([key, client, owner, enteredAt])
}

/** Whether there was a time at which all of these waits lasted. Unknown waits are no proof. */
function atOneTime(waits: readonly (SharedWait | undefined)[]): boolean {
  const since = waits.reduce((latest, wait) => Math.max(latest, wait?.since ?? Infinity), 0)
  return waits.every((wait) => wait !== undefined && since <= wait.until)
}

/** Each wait with the holders of its key: without a queue, no wait is behind another. */
function keysOf(waits: readonly SharedWait[], now: number): readonly ListedKey[] {
  const holders = new Map<string, Map<string, ListedClaim>>()
  for (const { wait, since } of waits) {
    for (const { key, mode, fence, owner } of wait.holds) {
      const ofKey = holders.get(key) ?? new Map<string, ListedClaim>()
      holders.set(key, ofKey)
      const runner = { ...wait.runner, owner }
      ofKey.set(JSON.stringify([runner.client, owner, fence]), {
        ...claimOf(mode, runner, now),
        state: 'held',
        fence,
        acquiredAt: since,
      })
    }
  }
  return waits.map(({ wait, enteredAt }) => {
    const waiting: ListedClaim = { ...claimOf(wait.mode, wait.runner, now), state: 'waiting', enteredAt }
    return { key: wait.key, claims: [...(holders.get(wait.key)?.values() ?? []), waiting] }
  })
}

/** What a published wait does not say does not matter to the graph. */
function claimOf(mode: OwnerWait['mode'], runner: Runner, now: number): Omit<ListedClaim, 'state'> {
  return {
    id: '',
    mode,
    priority: 0,
    fence: 0,
    ttlMs: 1,
    graceMs: 0,
    enteredAt: 0,
    acquiredAt: 0,
    lastHeartbeat: now,
    renewalCount: 0,
    expiresAt: now + 1,
    runner,
  }
}
