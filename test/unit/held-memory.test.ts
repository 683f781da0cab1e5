import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { KeyState } from '../../src/core/rule/key-state.ts'
import { admit } from '../../src/core/rule/admission.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { createLocks, type Lease, type Locks } from '../../src/index.ts'
import { claimOf } from '../support/claims.ts'
import { clientOf } from '../support/client-of.ts'
import { collectGarbage } from '../support/collect-garbage.ts'

/** Leases, and their acquisitions as long as anybody keeps them. */
async function acquireMany(locks: Locks): Promise<{ leases: Lease[]; acquisitions: WeakRef<object>[] }> {
  const acquired = Array.from({ length: 20 }, (_, index) => locks.acquire(`orders/${index}`))
  const acquisitions = [...clientOf(locks).acquisitions].map((acquisition) => new WeakRef(acquisition))
  return { leases: await Promise.all(acquired), acquisitions }
}

test('a held lease keeps nothing of the acquisition that it came from', async () => {
  const locks = await createLocks({ driver: memory() })
  const { leases, acquisitions } = await acquireMany(locks)
  expect([leases.length, acquisitions.length]).toEqual([20, 20])
  const kept = (): number => acquisitions.filter((acquisition) => acquisition.deref() !== undefined).length
  for (let tries = 0; tries < 50; tries += 1) {
    await pause(1)
    collectGarbage()
    // The last acquisition may still be in a register of the code that ran it.
    if (kept() <= 1) break
  }
  expect(kept()).toBeLessThanOrEqual(1)
  expect(leases.every((lease) => lease.held)).toBe(true)
  await locks.close()
})

test('leases that are renewed alike share one policy', async () => {
  const locks = await createLocks({ driver: memory() })
  const client = clientOf(locks)
  const terms = { heartbeatMs: 1000, ttlMs: 3000 } as Parameters<typeof client.renewalPolicy>[0]
  const policy = client.renewalPolicy(terms)
  expect(client.renewalPolicy({ ...terms })).toBe(policy)
  expect(client.renewalPolicy({ ...terms, heartbeatMs: 500 })).not.toBe(policy)
  expect(client.renewalPolicy({ ...terms, holdUntil: 9000 }).hold?.until).toBe(9000)
  await locks.close()
})

test('a key gives out its holder only if it has nothing else', () => {
  const state = new KeyState()
  const send = (id: string): void =>
    state.apply(admit(state, { op: 'claim', claim: { ...claimOf('orders'), id, wait: true } }, 0))
  const release = (id: string): void => state.apply(admit(state, { op: 'release', key: 'orders', id }, 0))
  expect(state.takeOnlyHolder()).toBeUndefined()
  send('holder')
  send('waiter')
  expect(state.takeOnlyHolder()).toBeUndefined()
  // The order of the waiter that left must not be given again while the key is not empty.
  release('waiter')
  expect(state.takeOnlyHolder()).toBeUndefined()
  release('holder')
  send('alone')
  expect(state.takeOnlyHolder()?.claim.id).toBe('alone')
  expect([state.idle, state.nextOrder()]).toEqual([true, 1])
})
