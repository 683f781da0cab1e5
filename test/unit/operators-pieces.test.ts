/** What is worked out of a snapshot of ten thousand locks keeps nobody else waiting. */
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ListedClaim, ListedKey } from '../../src/core/contract/driver.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { ChangeWatch } from '../../src/server/operators/change-watch.ts'
import { ownPace, type StoreSnapshot } from '../../src/server/operators/changes.ts'
import { LockHistory } from '../../src/server/operators/lock-history.ts'
import { Overview } from '../../src/server/operators/overview.ts'
import { atOnce, sorted } from '../../src/server/operators/pieces.ts'
import { Series } from '../../src/server/operators/series.ts'
import { deferred } from '../support/deferred.ts'
import { principalFor } from './support/principals.ts'

// As much as one snapshot holds: by the quotas, one tenant alone may have that much.
const [locks, claimsPerLock] = [10_000, 5]

function snapshot(now: number, grant: string): StoreSnapshot {
  const claim = (lock: number, index: number): ListedClaim => ({
    id: `${grant}-${lock}-${index}`,
    state: 'held',
    mode: 'shared',
    limit: undefined,
    range: undefined,
    priority: 0,
    fence: now * 1000,
    ttlMs: 30_000,
    graceMs: 0,
    maxHoldMs: undefined,
    leaving: undefined,
    detached: false,
    converting: false,
    enteredAt: now,
    acquiredAt: now,
    lastHeartbeat: now,
    renewalCount: now,
    expiresAt: now + 30_000,
    runner: {
      id: `runner-${index}`,
      incarnation: 'one',
      host: 'host',
      pid: 1,
      client: `client-${index}`,
      metadata: { service: `service-${lock % 300}-${index}` },
    },
  })
  const keys = Array.from({ length: locks }, (_, lock): ListedKey => {
    const name = (lock * 7919) % locks
    return {
      key: `tenant/named:${name}`,
      claims: Array.from({ length: claimsPerLock }, (__, index) => claim(lock, index)),
    }
  })
  return { now, keys, truncated: false }
}

/** How often the event loop came round to others while this ran: what one process may do between two pieces is not for us to say. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0
  let isOver = false
  const look = (): void => {
    turns += 1
    if (!isOver) setImmediate(look)
  }
  setImmediate(look)
  try {
    await work()
  } finally {
    isOver = true
  }
  return turns
}

test('a sorted page of the overview lets others have their turn many times', async () => {
  const sorts = ['contention', 'waiters', 'age', 'name'] as const
  for (const sort of sorts) {
    const seen = snapshot(1000, 'a')
    const overview = new Overview({ notOlderThan: async () => seen } as never, { wall: () => 0 }, 900)
    const query = { sort, order: 'last', limit: 500, name: '1' } as const
    expect(await turnsDuring(() => overview.read(principalFor('*'), query, ownPace)), sort).toBeGreaterThan(10)
  }
})

test('when all locks have changed, others have their turn many times before it is told', async () => {
  const snapshots = [snapshot(1000, 'a'), snapshot(2000, 'b'), snapshot(3000, 'b')]
  const reads = snapshots.map((each) => async () => each)
  const allRead = deferred()
  const environment = systemEnvironment()
  const [series, history] = [new Series(), new LockHistory()]
  const received: string[] = []
  const watch = new ChangeWatch({
    store: memory(),
    snapshots: {
      read: () => {
        const next = reads.shift()
        if (next !== undefined) return next()
        allRead.resolve()
        return Promise.reject(new Error('no more'))
      },
    },
    // It rests as long as it has worked: here not at all.
    environment: { ...environment, now: () => 0, timer: (_, action) => environment.timer(0, action) },
    evicted: () => undefined,
    seen(each, changes) {
      series.record(0, each, changes)
      history.record(0, changes)
    },
  })
  const turns = await turnsDuring(async () => {
    const watching = watch.source(principalFor('*')).attach(
      (event) => received.push(event),
      () => {},
    )
    await allRead.promise
    watching[Symbol.dispose]()
  })
  watch.close()
  expect(received.filter((event) => event === 'more')).toHaveLength(1)
  expect(received.filter((event) => event === 'rates')).toHaveLength(2)
  const { points } = series.shownTo(principalFor('*'), 0)
  expect(points.at(-1)?.granted).toBe(locks * claimsPerLock)
  expect(turns).toBeGreaterThan(100)
})

test('items sorted in pieces are in the same order as if sorted at once, equal ones too', () => {
  const item = fc.record({ rank: fc.nat(20), name: fc.nat(1000) })
  fc.assert(
    fc.property(fc.array(item, { maxLength: 500 }), (items) => {
      const byRank = (left: { rank: number }, right: { rank: number }): number => left.rank - right.rank
      expect(atOnce(sorted(items, byRank))).toEqual(items.toSorted(byRank))
    }),
  )
})
