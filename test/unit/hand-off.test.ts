import { describe, expect, test } from 'vitest'
import { around } from '../support/around.ts'
import { isSettled, locksBench } from './support/bench-of-locks.ts'

describe('hand-off', () => {
  test('passes a lease on without letting go, with its fence', async () => {
    const { client, advance } = locksBench()
    const [one, other, third] = [await client(), await client(), await client()]
    const lease = await one.acquire('a', { ttl: '3s' })
    const waiting = third.acquire('a')
    const { signal } = lease
    const text = JSON.stringify(await lease.handOff())
    await one.close()
    await advance(2000)
    const resumed = await other.resume(JSON.parse(text))
    expect(resumed.fence).toBe(lease.fence)
    await advance(60_000)
    expect(resumed.held).toBe(true)
    expect(await isSettled(waiting)).toBe(false)
    expect([signal.aborted, lease.held]).toEqual([false, false])
    expect(await resumed.release()).toEqual({ released: true })
    expect((await waiting).fence).toBeGreaterThan(resumed.fence)
  })

  test('ends the lease for the first: it cannot renew, and releasing is quiet', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const lease = await locks.acquire('a')
    await lease.handOff()
    await expect(lease.renew()).rejects.toMatchObject({ code: 'NOT_HELD' })
    expect(await lease.release()).toEqual({ released: false, reason: 'handed-off' })
    await expect(lease.handOff()).rejects.toMatchObject({ code: 'NOT_HELD' })
    await advance(1000)
    expect((await locks.inspect('a'))?.holders).toMatchObject([{ fence: lease.fence }])
  })

  test('that nobody takes up runs out with its ttl, and cannot be resumed after', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const proof = await (await one.acquire('a', { ttl: '3s' })).handOff()
    await advance(3000)
    await expect(other.resume(proof)).rejects.toMatchObject({ code: 'NOT_HELD' })
    expect(await other.tryAcquire('a')).not.toBeNull()
  })

  test('keeps mode, limit and range', async () => {
    const { client } = locksBench()
    const [one, other] = [await client(), await client()]
    const reader = await other.resume(await (await one.readWrite('a').read()).handOff())
    expect(await one.readWrite('a').tryRead()).not.toBeNull()
    expect(await one.tryAcquire('a')).toBeNull()
    await expect(reader.upgrade({ wait: 0 })).rejects.toMatchObject({ code: 'HELD' })
    const permit = await other.resume(await (await one.semaphore('s', 2).acquire()).handOff())
    expect(permit.toJSON()).toMatchObject({ mode: 'shared', limit: 2 })
  })

  test('of a lease that was lost, or to another namespace, is refused', async () => {
    const { client, advance } = locksBench()
    const [one, elsewhere] = [await client({ allowForce: true }), await client({ namespace: 'elsewhere' })]
    const proof = await (await one.acquire('a')).handOff()
    await expect(elsewhere.resume(proof)).rejects.toMatchObject({ code: 'SCOPE_MISMATCH' })
    await expect(one.resume({ ...proof, fence: proof.fence + 1 })).rejects.toMatchObject({ code: 'NOT_HELD' })
    await expect(one.resume('x' as never)).rejects.toMatchObject({ code: 'INVALID' })
    const lease = await one.acquire('b')
    await one.evict('b', { reason: 'test' })
    await expect(lease.handOff()).rejects.toMatchObject({ code: expect.stringMatching(/LOST|NOT_HELD/) as string })
    await advance(0)
  })

  test('that cannot reach the store fails, and the lease stays and is renewed', async () => {
    const bench = locksBench()
    let broken = false
    bench.wrap = (driver) =>
      around(driver, {
        send: (requests) => (broken ? Promise.reject(new Error('no route')) : driver.send(requests)),
      })
    const locks = await bench.client()
    const lease = await locks.acquire('a', { ttl: '3s' })
    broken = true
    await expect(lease.handOff()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    broken = false
    await bench.advance(60_000)
    expect(lease.held).toBe(true)
  })
})
