import { setTimeout as pause } from 'node:timers/promises'
import type { ListedClaim } from '../../core/contract/driver.ts'
import { holdingOwnerOf, ownersOf } from '../../core/contract/owner-name.ts'
import { claimsInBoth, findDeadlocks, type WaitingClaim } from '../../core/rule/wait-for-graph.ts'
import type { Snapshot } from './listing.ts'

/** One step of a deadlock: whose claim waits for which key, and what it keeps from the claim before it. */
export interface DeadlockStep {
  readonly key: string
  readonly claim: ListedClaim
  readonly waitedMs: number
  /** What its owner holds that the step before waits for; absent if that one only stands behind it in line. */
  readonly holds?: { readonly key: string; readonly claim: ListedClaim }
}

/** Owners that wait for each other in a circle. The first is to give way. */
export type DeadlockCycle = readonly DeadlockStep[]

/** A deadlock counts if it is in two snapshots this far apart: a snapshot takes several reads. */
const secondReadMs = 100

/** The deadlocks of what `read` sees, and the last thing it saw. */
export async function readDeadlocks(
  read: () => Promise<Snapshot>,
): Promise<{ readonly snapshot: Snapshot; readonly deadlocks: readonly DeadlockCycle[] }> {
  const first = await read()
  const suspected = await withinBounds(first)
  if (findDeadlocks(suspected).length === 0) return { snapshot: first, deadlocks: [] }
  await pause(secondReadMs)
  const snapshot = await read()
  return { snapshot, deadlocks: await deadlocksBetween(first, snapshot) }
}

/** The deadlocks that are in both snapshots, as the second shows them. */
export async function deadlocksBetween(first: Snapshot, second: Snapshot): Promise<readonly DeadlockCycle[]> {
  const { keys, now } = await withinBounds(second)
  const before = await withinBounds(first)
  const found = findDeadlocks({ now, keys: claimsInBoth(before.keys, keys) })
  return found.map(({ cycle }) => stepsOf(cycle, second))
}

/** The snapshot without the ends of queues that are too long to compare. */
async function withinBounds(snapshot: Snapshot): Promise<Snapshot> {
  // Loaded only now: most commands need nothing of the server.
  const { comparable } = await import('../../server/operators/cycles.ts')
  return { ...snapshot, keys: comparable(snapshot).keys }
}

function stepsOf(cycle: readonly WaitingClaim[], { keys, now }: Snapshot): DeadlockCycle {
  return cycle.map(({ key, claim }, index) => {
    const awaited = cycle.at(index - 1)?.key
    const held = keys.find((listed) => listed.key === awaited)?.claims.find((other) => isHeldBy(other, claim))
    const waitedMs = Math.max(0, now - claim.enteredAt)
    return {
      key,
      claim,
      waitedMs,
      ...(held !== undefined && awaited !== undefined && { holds: { key: awaited, claim: held } }),
    }
  })
}

/** Whether a held claim belongs to an owner on whose behalf another claim waits. */
function isHeldBy(held: ListedClaim, { runner }: ListedClaim): boolean {
  const owner = held.state === 'held' && held.runner.client === runner.client && holdingOwnerOf(held.runner.owner)
  return typeof owner === 'string' && ownersOf(runner.owner).includes(owner)
}
