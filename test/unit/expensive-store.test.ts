import { describe, expect, test } from 'vitest'
import { createLocks } from '../../src/api/create-locks.ts'
import { resolveOptions } from '../../src/api/options.ts'
import type { LockDriver, Request, Supports } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { fakeTime } from '../../src/testing/index.ts'

/** A memory store that cannot push and would rather not be asked too often. */
function dear(store: LockDriver, more: Partial<Supports>): LockDriver & { readonly asked: Request[] } {
  const asked: Request[] = []
  const pollingDefault = { attempts: Infinity, minMs: 1000, maxMs: 16_000, factor: 2, jitter: 0 }
  return {
    name: 'dear',
    supports: { ...store.supports, push: false, pollingDefault, ...more },
    asked,
    open: () => store.open(),
    close: () => store.close(),
    list: (query) => store.list(query),
    send(requests) {
      asked.push(...requests)
      return store.send(requests)
    },
  }
}

describe('a store where asking is dear', () => {
  test('is asked by a waiter after 1, 2, 4, 8 and then every 16 seconds', async () => {
    const { environment, clock, advance } = fakeTime()
    const driver = dear(memory({ clock }), {})
    const locks = await createLocks({ driver, environment, defaults: { ttl: '5m' } })
    const holding = locks.acquire('lock')
    await advance(0)
    const held = await holding
    const controller = new AbortController()
    const waiting = locks.acquire('lock', { signal: controller.signal })
    const outcome = expect(waiting).rejects.toMatchObject({ code: 'ABORTED' })
    await advance(0)
    const counts: number[] = []
    for (const seconds of [1, 2, 4, 8, 16, 16]) {
      const before = driver.asked.length
      await advance(seconds * 1000 - 1)
      const early = driver.asked.length - before
      await advance(1)
      counts.push(early, driver.asked.length - before)
    }
    expect(counts).toEqual([0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    controller.abort()
    await advance(0)
    await outcome
    await held.release()
    await locks.close()
  })

  test('is not looked through for deadlocks if it does not show who waits for whom', async () => {
    const { environment, clock, advance } = fakeTime()
    const driver = dear(memory({ clock }), { owners: false })
    let lists = 0
    const list = driver.list.bind(driver)
    const locks = await createLocks({
      driver: Object.assign(driver, { list: (query: object) => ((lists += 1), list(query)) }),
      environment,
    })
    const holding = locks.acquire('lock', { owner: 'one' })
    await advance(0)
    await holding
    const waiting = locks.acquire('lock', { owner: 'two', wait: '20s' }).catch(() => undefined)
    await advance(10_000)
    expect(lists).toBe(0)
    await locks.close()
    await waiting
  })

  test('says what silence counts as stale, unless the caller does', () => {
    const { supports } = dear(memory({}), { staleDefaultMs: 300_000 })
    const steal = { onConflict: 'steal-stale' } as const
    expect(resolveOptions(steal, supports, false).staleMs).toBe(300_000)
    expect(resolveOptions({ ...steal, staleAfter: '1m' }, supports, false).staleMs).toBe(60_000)
  })
})
