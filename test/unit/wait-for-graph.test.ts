import { expect, test } from 'vitest'
import type { ListedClaim, ListedKey, Request } from '../../src/core/contract/driver.ts'
import { findDeadlocks, claimsInBoth } from '../../src/core/rule/wait-for-graph.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { ownPace, readSnapshot } from '../../src/server/operators/changes.ts'
import { claimOf } from '../support/claims.ts'
import { Crowd } from './wait-for/crowd.ts'

const runs = 10_000

test(`in ${runs} random runs nobody is told of a deadlock who would have got on, and every deadlock is found`, () => {
  let deadlocked = 0
  let free = 0
  let alarms = 0
  for (let seed = 1; seed <= runs; seed += 1) {
    const crowd = new Crowd(seed)
    // Two looks at odd moments, while everybody goes on.
    for (let steps = Math.floor(crowd.random() * 20); steps > 0; steps -= 1) crowd.step()
    const first = crowd.read(9)
    for (let steps = Math.floor(crowd.random() * 3); steps > 0; steps -= 1) crowd.step()
    const second = crowd.read(9)
    const told = findDeadlocks({ now: crowd.now, keys: claimsInBoth(first, second) })
    while (crowd.step());
    for (const { candidates } of told) {
      alarms += 1
      for (const { claim } of candidates) expect(crowd.isWaiting(claim.id), `seed ${seed}: a false alarm`).toBe(true)
    }
    if (crowd.waiting > 0) deadlocked += 1
    else free += 1
    // Nobody can move now. Whoever waits is in a deadlock or behind one, and giving way resolves all of them.
    for (let rounds = 0; crowd.waiting > 0; rounds += 1) {
      const found = findDeadlocks({ now: crowd.now, keys: crowd.read(0) })
      expect(found.length, `seed ${seed}: a deadlock was not found`).toBeGreaterThan(0)
      expect(rounds).toBeLessThan(20)
      for (const { candidates } of found) crowd.giveWay(candidates[0]?.claim.id)
      while (crowd.step());
    }
  }
  // The runs are of both kinds, and the looks came at moments that matter.
  expect(deadlocked).toBeGreaterThan(runs / 10)
  expect(free).toBeGreaterThan(runs / 10)
  expect(alarms).toBeGreaterThan(runs / 50)
})

test('a cycle of ten thousand is found, and in a line of ten thousand nobody is stuck', async () => {
  const count = 10_000
  const keyOf = (place: number): string => `default/named:${place}`
  const ring = memory()
  const line = memory()
  for (let place = 0; place < count; place += 1) {
    const runner = { ...claimOf('').runner, owner: `p${place}` }
    const hold: Request = { op: 'claim', claim: claimOf(keyOf(place), { runner }) }
    await Promise.all([ring.send([hold]), line.send([hold])])
  }
  for (let place = 0; place < count; place += 1) {
    const runner = { ...claimOf('').runner, owner: `p${place}` }
    const wait: Request = { op: 'claim', claim: claimOf(keyOf((place + 1) % count), { runner }) }
    await ring.send([wait])
    if (place < count - 1) await line.send([wait])
  }
  const found = findDeadlocks(await readSnapshot(ring, ownPace))
  expect(found.map(({ candidates, cycle }) => [candidates.length, cycle.length])).toEqual([[count, count]])
  expect(findDeadlocks(await readSnapshot(line, ownPace))).toEqual([])
})

/** Owners p and q, each of which holds one lock and waits for the other's. */
function twoOwners(change: Partial<ListedClaim> = {}): readonly ListedKey[] {
  const listed = (owner: string, state: 'held' | 'waiting'): ListedClaim => ({
    id: `${owner} ${state}`,
    state,
    mode: 'exclusive',
    priority: 0,
    fence: state === 'held' ? 7 : 0,
    ttlMs: 10_000,
    graceMs: 0,
    detached: false,
    converting: false,
    enteredAt: 100,
    acquiredAt: state === 'held' ? 100 : 0,
    lastHeartbeat: 100,
    renewalCount: 0,
    expiresAt: 10_100,
    runner: { ...claimOf('').runner, owner },
  })
  return [
    { key: 'a', claims: [{ ...listed('p', 'held'), ...change }, listed('q', 'waiting')] },
    { key: 'b', claims: [listed('q', 'held'), listed('p', 'waiting')] },
  ]
}

test('a cycle counts if both looks have the same claims in it, and not if a lock was let go and taken again meanwhile', () => {
  const found = (first: readonly ListedKey[], second: readonly ListedKey[]) =>
    findDeadlocks({ now: 1000, keys: claimsInBoth(first, second) })
  expect(found(twoOwners(), twoOwners())).toHaveLength(1)
  // A server hides ids: the fence alone tells one holding of a lock from the next.
  expect(found(twoOwners({ id: '', fence: 7 }), twoOwners({ id: '', fence: 8 }))).toEqual([])
  expect(found(twoOwners({ enteredAt: 99 }), twoOwners())).toEqual([])
})

test('a holder that was asked to leave, or whose lease is over, is in no deadlock: it will be gone', () => {
  expect(findDeadlocks({ now: 1000, keys: twoOwners({ leaving: 'preempted' }) })).toEqual([])
  expect(findDeadlocks({ now: 1000, keys: twoOwners({ expiresAt: 1001 }) })).toHaveLength(1)
  expect(findDeadlocks({ now: 1000, keys: twoOwners({ expiresAt: 1000 }) })).toEqual([])
})
