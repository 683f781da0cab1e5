import { setTimeout as pause } from 'node:timers/promises'
import { expect } from '../vitest.ts'
import type { ClientFact } from './fact.ts'

/** Whatever fails on the way to the store, an acquire that was given up leaves no claim behind and is granted nothing. */
export function asking(fact: ClientFact): void {
  fact('a claim whose outcome is not known is released by its id', async (group) => {
    const { locks, driver } = await group.member({ ttl: 30_000 })
    driver.plan = { dropReply: 1, only: ({ op }) => op === 'claim' }
    await locks.acquire('lock', { wait: 200, retry: 'none' }).then(
      () => expect.fail('nobody can have been told of a grant'),
      (error: unknown) => expect(error).toMatchObject({ code: expect.stringMatching(/UNAVAILABLE|TIMEOUT/) as string }),
    )
    await group.expectClaims(0)
    driver.plan = {}
    await using lease = await locks.acquire('lock', { wait: 20_000 })
    expect(lease.held).toBe(true)
  })

  fact('a grant that comes too late reaches no caller and leaves no claim', async (group) => {
    const { locks, driver } = await group.member({ ttl: 30_000 })
    driver.plan = { delayReply: 1, delayMs: 1000, only: ({ op }) => op === 'claim' }
    let granted = 0
    locks.on('acquired', () => (granted += 1))
    await Promise.allSettled(
      Array.from({ length: 5 }, (_, index) => locks.acquire(`lock-${index}`, { wait: 20, retry: 'none' })),
    ).then((results) => expect(results.filter(({ status }) => status === 'fulfilled').length).toBe(granted))
    await pause(1000)
    await group.expectClaims(granted)
  })

  fact('a claim sent twice by the network is one claim', async (group) => {
    const { locks, driver } = await group.member({ ttl: 5000 })
    driver.plan = { duplicate: 1 }
    for (let turn = 0; turn < 5; turn += 1) {
      await using lease = await locks.acquire('lock', { wait: 20_000 })
      expect(lease.held).toBe(true)
      expect(await group.claims()).toHaveLength(1)
    }
    await group.expectClaims(0)
  })

  fact('who gives up waiting leaves no claim', async (group) => {
    const [holder, waiter] = [await group.member({ ttl: 5000 }), await group.member({ ttl: 5000 })]
    await holder.locks.acquire('lock')
    const controller = new AbortController()
    const waiting = waiter.locks.acquire('lock', { signal: controller.signal })
    await group.expectClaims(2)
    controller.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'ABORTED' })
    await group.expectClaims(1)
  })

  fact('who runs out of time leaves no claim', async (group) => {
    const [holder, waiter] = [await group.member({ ttl: 5000 }), await group.member({ ttl: 5000 })]
    await holder.locks.acquire('lock')
    await expect(waiter.locks.acquire('lock', { wait: 3000 })).rejects.toMatchObject({ code: 'TIMEOUT' })
    expect(await waiter.locks.tryAcquire('lock')).toBeNull()
    await group.expectClaims(1)
  })

  fact('a client closed while it waits leaves no claim', async (group) => {
    const [holder, waiter] = [await group.member({ ttl: 5000 }), await group.member({ ttl: 5000 })]
    await holder.locks.acquire('lock')
    const waiting = waiter.locks.acquire('lock')
    const outcome = expect(waiting).rejects.toMatchObject({ code: expect.stringMatching(/CLOSED|ABORTED/) as string })
    await group.expectClaims(2)
    await waiter.locks.close()
    await outcome
    await group.expectClaims(1)
  })

  fact('a notification that never arrives costs time, and nothing else', async (group) => {
    const [holder, waiter] = [await group.member({ ttl: 30_000 }), await group.member({ ttl: 2000 })]
    waiter.driver.plan = { dropNotifications: 1 }
    const held = await holder.locks.acquire('lock')
    const waiting = waiter.locks.acquire('lock', { wait: 20_000 })
    await group.expectClaims(2)
    await held.release()
    await using lease = await waiting
    expect(lease.held).toBe(true)
  })
}
