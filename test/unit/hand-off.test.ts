import { describe, expect, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { createLocks } from '../../src/index.ts'
import { fakeTime } from '../../src/testing/fake-time.ts'
import { around } from '../support/around.ts'
import { isSettled, locksBench, type LocksBench } from './support/bench-of-locks.ts'
import { handleOf } from '../../src/api/lease/lease-handle.ts'

/** The first renewal for `ttlMs` gets no answer. It is carried out when the result is called. */
function withoutAnswer(bench: LocksBench, ttlMs: number): () => Promise<void> {
  let carryOut: (() => Promise<unknown>) | undefined
  bench.wrap = (driver) =>
    around(driver, {
      send(requests) {
        const [request] = requests
        if (carryOut !== undefined || request?.op !== 'renew' || request.ttlMs !== ttlMs) return driver.send(requests)
        carryOut = () => driver.send(requests)
        return Promise.resolve(requests.map(() => ({ state: 'unknown', error: new Error('no answer') })))
      },
    })
  return async () => {
    await carryOut?.()
  }
}

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
    const passedOn: unknown[] = []
    locks.on('passed-on', (event) => passedOn.push(event))
    await advance(500)
    await lease.handOff()
    expect(passedOn).toEqual([{ scope: 'a', key: lease.key, fence: lease.fence, how: 'handed-off', heldMs: 500 }])
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

  test('takes along that a shorter renewal was never answered, and may be carried out yet', async () => {
    const bench = locksBench()
    const late = withoutAnswer(bench, 1000)
    const [one, other, third] = [await bench.client(), await bench.client(), await bench.client()]
    const lease = await one.acquire('a', { ttl: '30s' })
    await expect(lease.renew('1s')).rejects.toThrow('no answer')
    await lease.renew('30s')
    const resumed = await other.resume(JSON.parse(JSON.stringify(await lease.handOff())), { heartbeat: 'manual' })
    await late()
    const waiting = third.acquire('a')
    await bench.advance(1000)
    await waiting
    expect(resumed.held).toBe(false)
    const again = await one.acquire('b', { ttl: '30s' })
    expect(await again.handOff()).not.toHaveProperty('doubtMs')
  })

  test('is resumed at the pace of what was never answered, tries to resume it among that', async () => {
    const bench = locksBench()
    const late = withoutAnswer(bench, 1000)
    const [one, other, third] = [await bench.client(), await bench.client(), await bench.client()]
    const proof = await (await one.acquire('a', { ttl: '30s' })).handOff()
    await expect(other.resume(proof, { ttl: '1s' })).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    const resumed = await other.resume(proof, { ttl: '30s' })
    await late()
    const waiting = third.tryAcquire('a', { wait: '5s' })
    await bench.advance(5000)
    expect(await waiting).toBeNull()
    expect(resumed.held).toBe(true)
    expect(resumed.remainingMs).toBeLessThan(1000)
  })

  test('is for one: the client that has the lease, or is about to, refuses the proof a second time', async () => {
    const { client } = locksBench()
    const [one, other] = [await client(), await client()]
    const proof = await (await one.acquire('a', { ttl: '30s' })).handOff()
    const resuming = other.resume(proof)
    await expect(other.resume(proof, { ttl: '1s' })).rejects.toMatchObject({ code: 'INVALID', fence: proof.fence })
    const resumed = await resuming
    await expect(other.resume(proof, { ttl: '1s' })).rejects.toMatchObject({ code: 'INVALID', fence: proof.fence })
    expect(resumed.remainingMs).toBeGreaterThan(20_000)
    const released = resumed.release()
    await expect(other.resume(proof)).rejects.toMatchObject({ code: 'NOT_HELD' })
    await released
    await expect(other.resume(proof)).rejects.toMatchObject({ code: 'NOT_HELD' })
  })

  test('that is answered when the lease was lost, or released, gives no proof of it', async () => {
    const bench = locksBench()
    const waiting: (() => void)[] = []
    bench.wrap = (driver) =>
      around(driver, {
        async send(requests) {
          const statuses = await driver.send(requests)
          const [request] = requests
          if (request?.op === 'renew' && request.detached === true) await new Promise<void>((go) => waiting.push(go))
          return statuses
        },
      })
    const locks = await bench.client()
    const short = await locks.acquire('a', { ttl: '1s' })
    const lease = await locks.acquire('b', { ttl: '30s' })
    const [lost, released] = [short.handOff(), lease.handOff()]
    await bench.advance(1000)
    void lease.release()
    for (const answer of waiting) answer()
    await expect(lost).rejects.toMatchObject({ code: 'LOST' })
    await expect(released).rejects.toMatchObject({ code: 'NOT_HELD' })
    await bench.advance(0)
  })

  test('that was not answered may be carried out yet: a longer ttl that is had since is not trusted', async () => {
    const bench = locksBench()
    const carryOut = withoutAnswer(bench, 3000)
    const lease = await (await bench.client()).acquire('a', { ttl: '3s', heartbeat: 'manual' })
    await expect(lease.handOff()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    await lease.renew('30s')
    await carryOut()
    expect(lease.remainingMs).toBeLessThan(3000)
  })

  test('and conversion exclude each other: whoever resumes it would lose the lock to the new claim', async () => {
    const { client, advance } = locksBench()
    const [one, other, third] = [await client(), await client(), await client()]
    const lease = await one.readWrite('a').read()
    const reader = await other.readWrite('a').read()
    const upgrading = lease.upgrade({ wait: '1s' })
    await expect(lease.handOff()).rejects.toMatchObject({ code: 'INVALID' })
    await Promise.all([expect(upgrading).rejects.toMatchObject({ code: 'TIMEOUT' }), advance(1000)])
    const handing = lease.handOff()
    await expect(lease.upgrade()).rejects.toMatchObject({ code: 'INVALID' })
    const resumed = await third.resume(await handing)
    await reader.release()
    await advance(60_000)
    expect(resumed.held).toBe(true)
  })

  test('is asked for once, and nothing else is asked of the lease until it is answered', async () => {
    const { client } = locksBench()
    const lease = await (await client()).acquire('a', { ttl: '30s' })
    const handing = lease.handOff()
    await expect(lease.handOff()).rejects.toMatchObject({ code: 'INVALID' })
    // It would arrive after the first renewal of whoever resumes the lease.
    await expect(lease.renew('1s')).rejects.toMatchObject({ code: 'INVALID' })
    await expect(handing).resolves.toMatchObject({ ttlMs: 30_000 })
  })

  test('is trusted no longer than it asks for, though a renewal for less has not been sent yet', async () => {
    const bench = locksBench()
    let goOn: (() => void) | undefined
    bench.wrap = (driver) =>
      around(driver, {
        async send(requests) {
          const isSecondClaim = requests.some((request) => request.op === 'claim' && request.claim.ttlMs === 100)
          if (isSecondClaim) await new Promise<void>((resolve) => (goOn = resolve))
          const statuses = await driver.send(requests)
          const isRenewal = requests.some(({ op }) => op === 'renew')
          return isRenewal ? new Promise<never>(() => {}) : statuses
        },
      })
    const one = (await bench.client()).readWrite('a', { heartbeat: 'manual' })
    bench.wrap = (driver) => driver
    const other = await bench.client()
    const lease = await one.read({ ttl: '30s' })
    // While another claim of the lock is under way, what is asked for next is held back, and then goes out together.
    const asking = one.tryRead({ ttl: '100ms' })
    await bench.advance(0)
    const outcomes = [lease.renew('20s'), lease.renew('1s'), lease.handOff()].map((each) => each.catch(String))
    goOn?.()
    await bench.advance(1001)
    const writer = await other.readWrite('a').tryWrite()
    expect([lease.held, writer?.held]).toEqual([false, true])
    expect((await asking)?.held).toBe(false)
    expect(await isSettled(Promise.all(outcomes.slice(0, 2)))).toBe(true)
  })

  test('takes along that a renewal is under way, which news made the client send meanwhile', async () => {
    const bench = locksBench()
    const stray: (() => void)[] = []
    let nudge = (): void => {}
    bench.wrap = (driver) =>
      around(driver, {
        listen(received) {
          nudge = () => received(lease.key, handleOf(lease).claim.id, 'poll')
          return { [Symbol.dispose]() {} }
        },
        async send(requests) {
          const [request] = requests
          const isStray = request?.op === 'renew' && request.detached !== true
          if (isStray) await new Promise<void>((resolve) => stray.push(resolve))
          if (!isStray && request?.op === 'renew') nudge()
          return driver.send(requests)
        },
      })
    const one = await bench.client()
    bench.wrap = (driver) => driver
    const other = await bench.client()
    const lease = await one.acquire('a', { ttl: '3s', heartbeat: 'manual' })
    const resumed = await other.resume(await lease.handOff(), { ttl: '30s', heartbeat: 'manual' })
    await bench.advance(1)
    expect(stray).toHaveLength(1)
    stray[0]?.()
    await bench.advance(3001)
    expect(resumed.held).toBe(false)
    expect(await other.tryAcquire('a')).not.toBeNull()
  })

  test.each([0, 1, 2, 3, 4, 5, 6, 7, 8])(
    'that fails %i looks at the clock before the lease ends is refused, whichever look sees the end',
    async (looks) => {
      const { environment, clock, advance } = fakeTime()
      let [looking, lookedMs] = [false, 0]
      const now = (): number => environment.now() + (looking ? (lookedMs += 1) : lookedMs)
      const store = memory({ clock })
      let fail: (() => void) | undefined
      const send: LockDriver['send'] = (requests) =>
        requests[0]?.op === 'renew'
          ? new Promise((_, reject) => (fail = () => reject(new Error('no route'))))
          : store.send(requests)
      const locks = await createLocks({ driver: around(store, { send }), environment: { ...environment, now } })
      const lease = await locks.acquire('a', { ttl: '1s' })
      const outcome = lease.handOff().catch(String)
      await advance(lease.remainingMs - looks)
      looking = true
      fail?.()
      expect(await isSettled(outcome)).toBe(true)
    },
  )

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
