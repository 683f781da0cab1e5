import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { isSettled, locksBench } from './support/bench-of-locks.ts'

describe('a semaphore', () => {
  test('gives as many permits as it has, each with a lease and a fence of its own', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const permits = [await one.semaphore('s', 2).acquire(), await other.semaphore('s', 2).acquire()]
    expect(await one.semaphore('s', 2).tryAcquire()).toBeNull()
    const third = one.semaphore('s', 2).acquire()
    await advance(60_000)
    expect(await isSettled(third)).toBe(false)
    expect(await permits[1]?.release()).toEqual({ released: true })
    permits.push(await third)
    expect(new Set(permits.map(({ fence }) => fence)).size).toBe(3)
    expect(permits[0]?.held).toBe(true)
  })

  test('never has more holders than permits when one expires', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const semaphore = other.semaphore('s', 2, { ttl: '3s' })
    const [silent] = [
      await one.semaphore('s', 2).acquire({ ttl: '3s', heartbeat: 'manual' }),
      await semaphore.acquire(),
    ]
    const waiting = [semaphore.acquire(), semaphore.acquire()]
    const held = async () => (await other.inspect('s'))?.holders.filter(({ expired }) => !expired).length
    for (let round = 0; round < 40; round += 1) {
      await advance(100)
      expect(await held()).toBeLessThanOrEqual(2)
    }
    expect(silent.held).toBe(false)
    expect(await isSettled(waiting[0] as Promise<unknown>)).toBe(true)
    expect(await isSettled(waiting[1] as Promise<unknown>)).toBe(false)
    await other.close()
    await Promise.allSettled(waiting)
  })

  test('of another size is told SCOPE_MISMATCH, waiting or not', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const permit = await one.semaphore('s', 1).acquire()
    await expect(other.semaphore('s', 2).acquire()).rejects.toMatchObject({ code: 'SCOPE_MISMATCH' })
    await expect(other.semaphore('s', 2).tryAcquire()).rejects.toMatchObject({ code: 'SCOPE_MISMATCH' })
    const behind = one.semaphore('s', 1).acquire()
    const mistaken = other
      .semaphore('s', 3)
      .acquire()
      .catch((error: unknown) => error)
    await advance(10)
    await permit.release()
    expect((await behind).held).toBe(true)
    expect(await mistaken).toMatchObject({ code: 'SCOPE_MISMATCH' })
  })

  test('runs bodies, and has at least one permit', async () => {
    const { client } = locksBench()
    const locks = await client()
    let most = 0
    let now = 0
    const semaphore = locks.semaphore('s', 3)
    await Promise.all(
      Array.from({ length: 10 }, () =>
        semaphore.run(async () => {
          most = Math.max(most, (now += 1))
          await nextTurn()
          now -= 1
        }),
      ),
    )
    expect(most).toBe(3)
    for (const permits of [0, -1, 1.5, NaN]) expect(() => locks.semaphore('s', permits)).toThrow('INVALID')
  })
})
