import { expect } from '../vitest.ts'
import { webLocks, type LockOptions, type WebLock } from '../../web-locks/index.ts'
import type { Member } from '../client/client-group.ts'
import { rejectionOf } from './eventually.ts'
import type { PrimitiveFact } from './fact.ts'

/** A granted request, which ends with `letGo`. */
interface Held {
  readonly lock: WebLock
  readonly letGo: () => void
  readonly ended: Promise<unknown>
}

/** The W3C interface over a store, between clients. */
export function webLockFacts(fact: PrimitiveFact): void {
  fact(
    'a lock is held until what the callback gave has settled, and all clients see whose it is',
    [],
    async (group) => {
      const [member, rival] = [await group.member({ ttl: 5000 }), await group.member({ ttl: 5000 })]
      const manager = webLocks(rival.locks)
      const first = await hold(member, 'a/b')
      expect(await manager.request('a/b', { ifAvailable: true }, (lock) => [lock])).toEqual([null])
      expect(await manager.query()).toEqual({
        held: [{ name: 'a/b', mode: 'exclusive', clientId: member.locks.runner.client }],
        pending: [],
      })
      const second = manager.request('a/b', (lock) => lock?.fence)
      await group.contended(rival)
      first.letGo()
      expect(await first.ended).toBe('done')
      expect(await second).toBeGreaterThan(first.lock.fence)
      expect(await manager.query()).toEqual({ held: [], pending: [] })
    },
  )

  fact('those that wait are shown in their order', ['queue'], async (group) => {
    const [member, rival] = [await group.member({ ttl: 5000 }), await group.member({ ttl: 5000 })]
    const first = await hold(member, 'a')
    const order: string[] = []
    const waiting: Promise<unknown>[] = []
    for (const waiter of [rival, member]) {
      const { locks } = waiter
      waiting.push(webLocks(locks).request('a', () => void order.push(locks.runner.client)))
      await group.contended(waiter)
    }
    const clients = [rival, member].map(({ locks }) => locks.runner.client)
    const { pending } = await webLocks(member.locks).query()
    expect(pending).toEqual(clients.map((clientId) => ({ name: 'a', mode: 'exclusive', clientId })))
    first.letGo()
    await Promise.all(waiting)
    expect(order).toEqual(clients)
  })

  fact('shared locks are held together, and an exclusive one alone', ['shared'], async (group) => {
    const [member, rival] = [await group.member({ ttl: 5000 }), await group.member({ ttl: 5000 })]
    const readers = [await hold(member, 'a', { mode: 'shared' }), await hold(rival, 'a', { mode: 'shared' })]
    expect(await webLocks(member.locks).request('a', { ifAvailable: true }, (lock) => lock)).toBe(null)
    for (const reader of readers) reader.letGo()
    for (const reader of readers) await reader.ended
    expect(await webLocks(member.locks).request('a', (lock) => lock?.mode)).toBe('exclusive')
  })

  fact('a store without shared locks says NotSupportedError', ['no shared'], async (group) => {
    const manager = webLocks((await group.member()).locks)
    const request = manager.request('a', { mode: 'shared' }, () => {})
    expect(await rejectionOf(request)).toMatchObject({ name: 'NotSupportedError' })
    await group.expectClaims(0)
  })

  fact('a signal ends the wait with its reason, and leaves nothing behind', [], async (group) => {
    const [member, rival] = [await group.member({ ttl: 5000 }), await group.member({ ttl: 5000 })]
    const first = await hold(member, 'a')
    const controller = new AbortController()
    const waiting = webLocks(rival.locks).request('a', { signal: controller.signal }, () => 'granted')
    await group.contended(rival)
    controller.abort('mine')
    expect(await rejectionOf(waiting)).toBe('mine')
    await group.expectClaims(1)
    first.letGo()
    await first.ended
  })

  fact('a lock that is stolen is told with AbortError, and is the thief’s', ['force'], async (group) => {
    const [member, thief] = [await group.member({ ttl: 3000 }), await group.member({ ttl: 5000 })]
    const first = await hold(member, 'a')
    const stolen = await hold(thief, 'a', { steal: true })
    expect(stolen.lock.fence).toBeGreaterThan(first.lock.fence)
    expect(await rejectionOf(first.ended)).toMatchObject({ name: 'AbortError' })
    expect(first.lock.signal.aborted).toBe(true)
    first.letGo()
    expect(await webLocks(member.locks).request('a', { ifAvailable: true }, (lock) => lock)).toBe(null)
    stolen.letGo()
    await stolen.ended
  })

  fact('a store that turns nobody out says NotSupportedError to a thief', ['no force'], async (group) => {
    const manager = webLocks((await group.member()).locks)
    expect(await rejectionOf(manager.request('a', { steal: true }, () => {}))).toMatchObject({
      name: 'NotSupportedError',
    })
    await group.expectClaims(0)
  })
}

function hold({ locks }: Member, name: string, options: LockOptions = {}): Promise<Held> {
  return new Promise((resolve, reject) => {
    const ended = webLocks(locks).request(name, options, async (lock) => {
      if (lock === null) throw new Error('It was not to be had.')
      await new Promise<void>((letGo) => resolve({ lock, letGo, ended }))
      return 'done'
    })
    ended.catch(reject)
  })
}
