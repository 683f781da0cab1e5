import { expect, test } from 'vitest'
import { createLocks } from '../../src/index.ts'
import type { ListQuery, LockDriver } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'

/** A driver that notes what it is asked to list, and how many claims it answered. */
function counting(driver: LockDriver): { driver: LockDriver; queries: ListQuery[]; claims: () => number } {
  const queries: ListQuery[] = []
  let claims = 0
  const counted = Object.create(driver, {
    list: {
      value: async (query: ListQuery) => {
        queries.push(query)
        const page = await driver.list(query)
        for (const key of page.keys) claims += key.claims.length
        return page
      },
    },
  }) as LockDriver
  for (const name of ['open', 'send', 'listen', 'close'] as const) {
    Object.defineProperty(counted, name, { value: driver[name]?.bind(driver) })
  }
  return { driver: counted, queries, claims: () => claims }
}

test('a thousand acquisitions that time out together read a few claims, once', async () => {
  const { driver, queries, claims } = counting(memory())
  await using locks = await createLocks({ driver })
  await locks.acquire('busy')
  const misses = Array.from({ length: 1000 }, () =>
    locks.acquire('busy', { wait: '50ms' }).catch((error: unknown) => error),
  )
  const errors = await Promise.all(misses)
  for (const error of errors)
    expect(error).toMatchObject({ code: 'TIMEOUT', holders: [{ fence: expect.any(Number) as number }] })
  // On a busy machine they do not all end together.
  expect(queries.length).toBeLessThanOrEqual(100)
  expect(claims()).toBeLessThanOrEqual(100 * 32)
})

test('an error counts the waiters that it does not list', async () => {
  const { driver } = counting(memory())
  await using locks = await createLocks({ driver })
  await locks.acquire('busy')
  const stop = new AbortController()
  const waiting = Array.from({ length: 100 }, () =>
    locks.acquire('busy', { signal: stop.signal }).catch(() => undefined),
  )
  await expect(locks.acquire('busy', { wait: 0 })).rejects.toMatchObject({ queuePosition: 100 })
  await expect(locks.acquire('busy', { wait: 0, priority: 1 })).rejects.toMatchObject({ queuePosition: 0 })
  stop.abort()
  await Promise.all(waiting)
})
