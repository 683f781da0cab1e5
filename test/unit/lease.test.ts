import { describe, expect, test } from 'vitest'
import type { HeartbeatReport } from '../../src/api/heartbeat/heartbeats.ts'
import type { Lease, Locks } from '../../src/index.ts'
import { durationMs } from '../../src/core/time/duration.ts'
import { faulty } from '../../src/testing/faults.ts'
import { around } from '../support/around.ts'
import { isSettled, locksBench, type LocksBench } from './support/bench-of-locks.ts'
import { clientOf } from '../support/client-of.ts'
import { handleOf } from '../../src/api/lease/lease-handle.ts'

/** A heartbeat thread that only notes what it is told. */
async function startThread(locks: Locks) {
  const told = {
    watched: [] as number[],
    unwatched: [] as string[],
    notify: (_report: HeartbeatReport): void => {},
    drain: (): void => {},
  }
  await clientOf(locks).startThread(async (notify) => {
    told.notify = notify
    return {
      watch: ({ ttlMs }) => void told.watched.push(ttlMs),
      unwatch: (id) => void told.unwatched.push(id),
      drain: () => told.drain(),
      close: async () => {},
    }
  })
  return told
}

describe('a lease', () => {
  test('is kept by heartbeats for as long as its holder wants', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const lease = await locks.acquire('a', { ttl: '3s' })
    await advance(60_000)
    expect(lease.held).toBe(true)
    expect((await locks.inspect('a'))?.holders[0]).toMatchObject({ renewalCount: expect.any(Number) as number })
    expect((await locks.stats()).counters['lock.heartbeat_renewed']).toBeGreaterThan(50)
    expect(lease.heldMs).toBe(60_000)
  })

  test('is renewed although a claim of the same lock is not answered', async () => {
    const bench = locksBench()
    bench.wrap = (driver) => faulty(driver, { hang: 1, only: ({ op }) => op === 'claim' && hangs })
    let hangs = false
    const locks = await bench.client()
    const lease = await locks.acquire('a', { ttl: '3s' })
    hangs = true
    const second = locks.acquire('a', { ttl: '5m' })
    second.catch(() => {})
    await bench.advance(60_000)
    expect(lease.held).toBe(true)
    const released = lease.release()
    await bench.advance(2000)
    expect(await released).toEqual({ released: true })
  })

  test('renewed for another ttl while a heartbeat is under way, tells so when that ttl is in force', async () => {
    const bench = locksBench()
    const answers: (() => void)[] = []
    let isHeld = false
    bench.wrap = (driver) => ({
      ...around(driver),
      send: async (requests) => {
        if (isHeld && requests[0]?.op === 'renew') await new Promise<void>((resolve) => answers.push(resolve))
        return driver.send(requests)
      },
    })
    const lease = await (await bench.client()).acquire('a', { ttl: '6s' })
    isHeld = true
    await bench.advance(2000)
    expect(answers).toHaveLength(1)
    const renewed = lease.renew('60s')
    answers[0]?.()
    await bench.advance(0)
    expect(await isSettled(renewed)).toBe(false)
    const later = lease.renew('30s')
    answers[1]?.()
    await renewed
    expect(await isSettled(later), 'the last one is under way still').toBe(false)
    expect(lease.remainingMs).toBeGreaterThan(20_000)
    answers[2]?.()
    await later
  })

  test('that was asked to leave is not renewed, and says so at once', async () => {
    const bench = locksBench()
    const [holder, other] = await Promise.all([bench.client(), bench.client()])
    const lease = await holder.acquire('a', { ttl: '6s', heartbeat: 'manual' })
    const waiting = other.acquire('a', { priority: 5, onConflict: 'preempt' })
    await bench.advance(100)
    await expect(lease.renew()).rejects.toMatchObject({ code: 'NOT_HELD' })
    await expect(lease.renew('60s')).rejects.toMatchObject({ code: 'NOT_HELD' })
    await lease.release()
    await (await waiting).release()
  })

  test('answers whoever renews it, also when another thread is answered first', async () => {
    const bench = locksBench()
    let answer: (() => void) | undefined
    bench.wrap = (driver) => ({
      ...around(driver),
      send: async (requests) => {
        if (requests[0]?.op === 'renew') await new Promise<void>((resolve) => (answer = resolve))
        return driver.send(requests)
      },
    })
    const locks = await bench.client()
    const { notify } = await startThread(locks)
    const lease = await locks.acquire('a', { ttl: '30s' })
    const { id, key } = handleOf(lease).claim
    const renewed = lease.renew()
    await bench.advance(10)
    const sent = { at: bench.environment.now(), ttlMs: 30_000 }
    notify({ id, key, sent, status: { state: 'held', fence: lease.fence, ttlMs: 30_000 } })
    expect(await isSettled(renewed), 'that was not what was asked').toBe(false)
    answer?.()
    await renewed
  })

  test('trusts what another thread was told no longer than the shorter ttl that it has asked for meanwhile', async () => {
    const { client, environment } = locksBench()
    const lease = await (await client()).acquire('a', { ttl: '30s' })
    const shorter = lease.renew('3s')
    const told = { state: 'held', fence: lease.fence, ttlMs: 30_000 } as const
    handleOf(lease).claimRuntime.renewedElsewhere(told, environment.now(), 30_000)
    expect(lease.remainingMs).toBeLessThan(3000)
    await shorter
  })

  test('is bound by each ttl that another thread was told of until that very one is settled', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const { watched, notify } = await startThread(locks)
    const lease = await locks.acquire('a', { ttl: '30s' })
    const { id } = handleOf(lease).claim
    await lease.renew('3s')
    await lease.renew('30s')
    expect(watched).toEqual([30_000, 3000, 30_000])
    notify({ id, settledMs: 30_000 })
    await advance(0)
    expect(lease.remainingMs).toBeLessThan(3000)
    notify({ id, settledMs: 3000 })
    await advance(0)
    expect(lease.remainingMs).toBeGreaterThan(25_000)
  })

  test('is not lost to a thread that was blocked if another has renewed it meanwhile', async () => {
    const { client, block, environment } = locksBench()
    const locks = await client()
    const thread = await startThread(locks)
    const lease = await locks.acquire('a', { ttl: '30s' })
    const { id, key } = handleOf(lease).claim
    block(20_000)
    const sent = { at: environment.now(), ttlMs: 30_000 }
    block(20_000)
    thread.drain = () => thread.notify({ id, key, sent, status: { state: 'held', fence: lease.fence, ttlMs: 30_000 } })
    expect([lease.held, lease.signal.aborted]).toEqual([true, false])
    expect(lease.remainingMs).toBeLessThan(10_000)
  })

  test.each<[string, (lease: Lease) => unknown]>([
    ['is released', (lease) => lease.release()],
    ['is handed off', (lease) => lease.handOff()],
    ['is no longer to be renewed', (lease) => lease.stopHeartbeat()],
    ['is lost', (lease) => handleOf(lease).claimRuntime.onNotification({ state: 'absent', reason: 'evicted' })],
  ])('that %s is renewed by no other thread any more', async (_how, end) => {
    const locks = await locksBench().client()
    const { unwatched } = await startThread(locks)
    const lease = await locks.acquire('a')
    await end(lease)
    expect(unwatched).toContain(handleOf(lease).claim.id)
  })

  test.each<[string, (lease: Lease, bench: LocksBench) => unknown]>([
    ['is lost', (_lease, bench) => bench.advance(30_000)],
    ['is released', (lease) => void lease.release()],
    ['is passed on', (lease) => handleOf(lease).passOn('handed-off')],
    [
      'is asked to leave',
      (lease) =>
        handleOf(lease).claimRuntime.onNotification({
          state: 'held',
          fence: lease.fence,
          ttlMs: 30_000,
          leaving: 'why',
        }),
    ],
  ])('that %s tells whoever awaits its renewal', async (how, end) => {
    const bench = locksBench()
    let answer: (() => void) | undefined
    bench.wrap = (driver) =>
      around(driver, {
        async send(requests) {
          if (requests[0]?.op === 'renew') await new Promise<void>((resolve) => (answer = resolve))
          return driver.send(requests)
        },
      })
    const lease = await (await bench.client()).acquire('a', { ttl: '30s', heartbeat: 'manual' })
    const renewing = lease.renew().catch(String)
    await bench.advance(0)
    await end(lease, bench)
    // A release waits for the renewal that is under way.
    if (how === 'is released') answer?.()
    expect(await isSettled(renewing)).toBe(true)
    expect(await renewing).toMatch(/NOT_HELD|LOST|leave/)
  })

  test('by hand warns at one third left, is lost at its end, and cannot be renewed after', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const told: string[] = []
    locks.on('jeopardy', ({ reason }) => told.push(`jeopardy ${reason}`))
    locks.on('lost', ({ reason }) => told.push(`lost ${reason}`))
    const lease = await locks.acquire('a', { ttl: '9s', heartbeat: 'manual' })
    const { signal } = lease
    await advance(5500)
    expect(told).toEqual([])
    await advance(200)
    expect(told).toEqual(['jeopardy not renewed'])
    await lease.renew()
    await advance(5000)
    expect(lease.held).toBe(true)
    await advance(4000)
    expect(told).toEqual(['jeopardy not renewed', 'jeopardy not renewed', 'lost expired'])
    expect(signal.reason).toMatchObject({ code: 'LOST', message: expect.stringContaining('Stop writing') as string })
    await expect(lease.renew()).rejects.toMatchObject({ code: 'NOT_HELD' })
  })

  test('can start and stop its heartbeat', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const lease = await locks.acquire('a', { ttl: '3s', heartbeat: 'manual' })
    lease.startHeartbeat()
    await advance(10_000)
    expect(lease.heartbeating && lease.held).toBe(true)
    lease.stopHeartbeat()
    await advance(3000)
    expect(lease.held).toBe(false)
    expect(() => lease.startHeartbeat()).toThrow(expect.objectContaining({ code: 'NOT_HELD' }))
  })

  test('renewed for less is kept all the same by a heartbeat that is started again, and by that of an upgrade', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const lease = await locks.acquire('a', { ttl: '30s' })
    const reader = await locks.readWrite('b').read({ ttl: '30s' })
    await lease.renew('3s')
    lease.stopHeartbeat()
    lease.startHeartbeat()
    await reader.renew('3s')
    const writer = await reader.upgrade()
    await advance(10_000)
    expect([lease.loss, writer.loss]).toEqual([undefined, undefined])
  })

  test('renewed for longer keeps the new ttl, and its end is now plus ttl, never added', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const lease = await locks.acquire('a', { ttl: '10s', heartbeat: 'manual' })
    await lease.renew('20s')
    await lease.renew('20s')
    expect(Math.round(lease.remainingMs)).toBe(20_000 - 1002)
    await advance(5000)
    await lease.renew()
    expect(Math.round(lease.remainingMs)).toBe(20_000 - 1002)
    await lease.renew('2s')
    expect(lease.remainingMs).toBeLessThan(2000)
  })

  test('is over by the clock although the event loop was blocked, and nobody is told otherwise', async () => {
    const { client, block } = locksBench()
    const locks = await client()
    const lease = await locks.acquire('a', { ttl: '3s' })
    block(10_000)
    expect(lease.held).toBe(false)
    expect(lease.signal.aborted).toBe(true)
    expect(lease.remainingMs).toBe(0)
  })

  test('that makes no progress is in danger and lost for that reason, and goes on once it does', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const told: string[] = []
    locks.on('jeopardy', ({ reason }) => told.push(`jeopardy ${reason}`))
    locks.on('lost', ({ reason }) => told.push(`lost ${reason}`))
    const lease = await locks.acquire('a', { ttl: '3s', progress: '10s' })
    for (let steps = 0; steps < 300 && told.length === 0; steps += 1) await advance(100)
    expect(told).toEqual(['jeopardy no-progress'])
    lease.progress()
    expect(lease.heartbeating).toBe(true)
    await advance(9000)
    expect(lease.held).toBe(true)
    for (let steps = 0; steps < 300 && lease.held; steps += 1) await advance(100)
    expect(told).toEqual(['jeopardy no-progress', 'jeopardy no-progress', 'lost no-progress'])
    expect(lease.loss).toMatchObject({
      reason: 'no-progress',
      message: expect.stringMatching(/made no progress/) as string,
    })
  })

  test('by hand stays so, whatever progress it makes', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const lease = await locks.acquire('a', { ttl: '3s', heartbeat: 'manual', progress: '1s' })
    lease.progress()
    expect(lease.heartbeating).toBe(false)
    await advance(2000)
    await lease.renew()
    lease.progress()
    expect(lease.heartbeating).toBe(false)
    const beating = await locks.acquire('b', { ttl: '3s', progress: '10s' })
    beating.stopHeartbeat()
    beating.progress()
    expect(beating.heartbeating).toBe(false)
    await advance(3000)
    expect([lease.loss?.reason, beating.loss?.reason]).toEqual(['expired', 'expired'])
  })

  test('near its longest hold is in danger for that, renewed as it was', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const told: string[] = []
    locks.on('jeopardy', ({ reason }) => told.push(reason))
    await locks.acquire('a', { ttl: '3s', maxHold: '10s' })
    for (let steps = 0; steps < 300 && told.length === 0; steps += 1) await advance(100)
    expect(told).toEqual(['max-hold'])
  })

  test.each([
    ['3s', '20s', '1s'],
    ['30s', '60s', '100ms'],
    ['30s', '60s', '9s'],
    ['30s', '12s', '4s'],
  ] as const)(
    'of %s is warned once of its longest hold, %s, however often renewed: every %s',
    async (ttl, maxHold, every) => {
      const { client, advance } = locksBench()
      const locks = await client()
      const told: { readonly reason: string; readonly remainingMs: number }[] = []
      locks.on('jeopardy', ({ reason, remainingMs }) => told.push({ reason, remainingMs }))
      await locks.acquire('a', { ttl, maxHold, heartbeat: every })
      await advance(60_000)
      expect(told.map(({ reason }) => reason)).toEqual(['max-hold'])
      // A third of the lease before its end, but for the drift margin.
      const lastsMs = Math.min(durationMs(ttl, 'ttl'), durationMs(maxHold, 'maxHold'))
      expect(Math.abs((told[0]?.remainingMs ?? 0) - lastsMs / 3)).toBeLessThan(lastsMs / 20 + 10)
    },
  )

  test('tells times in whole milliseconds, by events, errors and itself', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    const [other, waiter] = [await bench.client(), await bench.client()]
    const told: [string, number][] = []
    const names = ['acquired', 'renewed', 'jeopardy', 'leaving', 'lost', 'released', 'passed-on', 'failed'] as const
    for (const client of [locks, other, waiter]) {
      for (const name of names) {
        client.on(name, (event) => {
          for (const [field, value] of Object.entries(event))
            if (field.endsWith('Ms')) told.push([name, value as number])
        })
      }
    }
    bench.block(0.3)
    const lost = await locks.acquire('a', { ttl: '3s', heartbeat: 'manual' })
    const kept = await locks.readWrite('b').read({ ttl: '3s' })
    bench.block(0.31)
    const waiting = waiter
      .acquire('b', { wait: 500, priority: 5, onConflict: 'preempt' })
      .catch((error: unknown) => error)
    await bench.advance(1000.23)
    expect(String(await waiting)).not.toMatch(/\d\.\d+ ms/)
    expect([lost.remainingMs, lost.heldMs, kept.remainingMs].filter((time) => !Number.isInteger(time))).toEqual([])
    await bench.advance(1000.37)
    await kept.release()
    await bench.advance(3000.41)
    expect(String(lost.loss)).not.toMatch(/\d\.\d+ ms/)
    const upgraded = await (await locks.readWrite('c').read()).upgrade()
    bench.block(10.7)
    await upgraded.renew()
    await upgraded.release()
    expect(new Set(told.map(([name]) => name))).toEqual(new Set(names))
    expect(told.filter(([, time]) => !Number.isInteger(time))).toEqual([])
  })

  test('that the store no longer knows says so when it is released', async () => {
    const bench = locksBench()
    bench.wrap = (driver) =>
      around(driver, {
        send: async (requests) =>
          requests[0]?.op === 'release' ? [{ state: 'absent', reason: 'unknown' }] : driver.send(requests),
      })
    const lease = await (await bench.client()).acquire('a')
    expect(await lease.release()).toEqual({ released: false, reason: 'unknown' })
  })

  test('with progress is renewed only while its holder gets on', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const lease = await locks.acquire('a', { ttl: '3s', progress: '10s' })
    for (let round = 0; round < 5; round += 1) {
      await advance(5000)
      lease.progress()
    }
    expect(lease.held).toBe(true)
    await advance(15_000)
    expect(lease.held).toBe(false)
  })

  test('is held at most for its longest hold, renewed or not', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const lease = await locks.acquire('a', { ttl: '3s', maxHold: '10s' })
    await advance(9000)
    expect(lease.held).toBe(true)
    await advance(1001)
    expect(lease.loss).toMatchObject({ code: 'LOST', reason: 'max-hold' })
    expect(await locks.tryAcquire('a')).not.toBeNull()
  })

  test('in its grace is lost for its owner and blocks others still; saying goodbye ends that', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const lease = await one.acquire('a', { ttl: '1s', grace: '5s', heartbeat: 'manual' })
    await advance(2000)
    expect(lease.held).toBe(false)
    expect(await other.tryAcquire('a')).toBeNull()
    expect(await lease.release()).toEqual({ released: false, reason: 'lost' })
    await advance(0)
    expect(await other.tryAcquire('a')).not.toBeNull()
  })
})

describe('releasing', () => {
  test('twice is quiet and says so', async () => {
    const locks = await locksBench().client()
    const lease = await locks.acquire('a')
    expect(await lease.release()).toEqual({ released: true })
    expect(await lease.release()).toEqual({ released: false, reason: 'already-released' })
    await expect(lease.renew()).rejects.toMatchObject({ code: 'NOT_HELD' })
    expect(lease.signal.aborted).toBe(false)
  })

  test('by disposal never hides an error of the body', async () => {
    const locks = await locksBench().client()
    const use = async () => {
      await using lease = await locks.acquire('a')
      throw new Error(`body with ${typeof lease.fence}`)
    }
    await expect(use()).rejects.toThrow('body with number')
    expect(await locks.inspect('a')).toBeNull()
  })

  test('when the store cannot be reached is quiet, and goes on in the background', async () => {
    const bench = locksBench()
    let broken = false
    bench.wrap = (driver) =>
      around(driver, {
        send: (requests) => (broken ? Promise.reject(new Error('no route')) : driver.send(requests)),
      })
    const locks = await bench.client()
    const lease = await locks.acquire('a')
    broken = true
    expect(await lease.release()).toEqual({ released: false, reason: 'unavailable' })
    broken = false
    await bench.advance(1000)
    expect(await locks.inspect('a')).toBeNull()
  })

  test('an eviction aborts the signal with its reason', async () => {
    const bench = locksBench()
    const locks = await bench.client({ allowForce: true })
    const lease = await locks.acquire('a')
    const { signal } = lease
    expect(await locks.evict('a', { reason: 'deploy' })).toBe(1)
    await bench.advance(0)
    expect(signal.reason).toMatchObject({ code: 'LOST', reason: 'evicted: deploy', fence: lease.fence })
    expect(await lease.release()).toEqual({ released: false, reason: 'lost' })
  })
})

describe('closing', () => {
  test('releases what is held, ends what waits, and leaves no timer', async () => {
    const bench = locksBench()
    const [one, other] = [await bench.client(), await bench.client()]
    const lease = await one.acquire('a')
    await other.acquire('b')
    const waiting = one.acquire('b', { wait: '1h' }).catch((error: unknown) => error)
    await bench.advance(10)
    await one.close()
    expect(lease.held).toBe(false)
    expect(await other.tryAcquire('a')).not.toBeNull()
    expect(await waiting).toMatchObject({ code: 'CLOSED' })
    await expect(one.acquire('c')).rejects.toMatchObject({ code: 'CLOSED' })
    await other.close()
    expect(bench.timers).toBe(0)
  })

  test('twice is one closing', async () => {
    const locks = await locksBench().client()
    expect(locks.close()).toBe(locks.close())
    await locks.close()
  })

  test('does not wait for ever for a store that does not answer', async () => {
    const bench = locksBench()
    let hang = false
    bench.wrap = (driver) =>
      around(driver, {
        send: (requests) => (hang ? new Promise(() => {}) : driver.send(requests)),
      })
    const locks = await bench.client()
    await locks.acquire('a')
    hang = true
    const closing = locks.close()
    await bench.advance(4000)
    expect(await isSettled(closing)).toBe(false)
    await bench.advance(1000)
    await closing
    expect(bench.timers).toBe(0)
  })
})
