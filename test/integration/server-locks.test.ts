/** The face for people and for other languages, over real HTTP: one lock a call. */
import path from 'node:path'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { http } from '../../src/drivers/http/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import { createLocks, type Locks } from '../../src/index.ts'
import { serve } from '../../src/server/index.ts'
import { eventually } from '../support/eventually.ts'
import { leaseIn, LockCalls, type AnsweredLease } from '../support/lock-calls.ts'
import { RedisServer } from '../support/redis-server.ts'
import { startServer } from '../support/started-server.ts'
import { folderForTest } from '../support/test-folder.ts'

const redisServer = await RedisServer.start()
afterAll(() => redisServer.stop())

let stores = 0
/** Each makes a store, and gives what makes drivers on it. */
const kinds: Record<string, () => () => LockDriver> = {
  memory() {
    const name = `locks-${(stores += 1)}`
    return () => memory({ name })
  },
  SQLite() {
    const file = path.join(folderForTest('locks'), 'locks.sqlite')
    return () => sqlite({ file, forOthers: true })
  },
  Redis() {
    const prefix = `locks-${(stores += 1)}:`
    return () => redis({ url: redisServer.url, prefix })
  },
}

async function clientOf(url: string): Promise<Locks> {
  const locks = await createLocks({ driver: http(url) })
  onTestFinished(() => locks.close())
  return locks
}

describe.each(Object.entries(kinds))('over %s', (_, kind) => {
  const store = (): LockDriver => kind()()

  test('a lock is taken, seen without its id, renewed and released', async () => {
    const { url } = await startServer({ driver: store() })
    const calls = new LockCalls(url)
    const body = { metadata: { job: 'nightly' } }
    const put = await calls.put('orders/42', { query: 'ttl=20s', body })
    expect(put.headers.get('content-type')).toContain('application/json')
    const lease = leaseIn(put)
    expect(lease).toMatchObject({ namespace: 'default', name: 'orders/42', ttlMs: 20_000 })
    expect(lease.id).toMatch(/^[0-9a-f]{32}$/)
    expect(Number.isSafeInteger(lease.fence)).toBe(true)
    expect(lease.expiresInMs).toBeGreaterThan(0)
    expect(lease.expiresInMs).toBeLessThanOrEqual(20_000)
    expect(put.value).toMatchObject({ expiresAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) })

    const seen = await calls.get('orders/42')
    expect(seen.value).toMatchObject({ held: 1, waiting: 0, holders: [{ fence: lease.fence, runner: body }] })
    expect(seen.text).not.toContain(lease.id)

    const renewed = leaseIn(await calls.renew('orders/42', { id: lease.id, query: 'ttl=1h' }))
    expect(renewed).toMatchObject({ fence: lease.fence, ttlMs: 3_600_000 })
    expect(renewed.expiresInMs).toBeGreaterThan(20_000)

    expect((await calls.delete('orders/42', { id: lease.id })).value).toEqual({ released: true })
    expect(await calls.look('orders/42')).toMatchObject({ held: 0, waiting: 0, holders: [], waiters: [] })
    expect(await calls.delete('orders/42', { id: lease.id })).toMatchObject({
      status: 200,
      value: { released: false, code: 'NOT_HELD' },
    })
    expect(await calls.renew('orders/42', { id: lease.id })).toMatchObject({ status: 404, value: { code: 'NOT_HELD' } })
    expect((await calls.take('orders/42')).fence).toBeGreaterThan(lease.fence)
  })

  test('our own client and other callers keep each other out, and hand over', async () => {
    const { url } = await startServer({ driver: store() })
    const [calls, locks] = [new LockCalls(url), await clientOf(url)]
    const first = await locks.acquire('orders/42')
    const held = await calls.put('orders/42')
    expect(held).toMatchObject({ status: 409, value: { code: 'HELD', status: 409, type: 'urn:leasehold:HELD' } })
    expect(held.headers.get('content-type')).toBe('application/problem+json')
    expect(held.headers.get('retry-after')).toBe('1')
    const waiting = calls.take('orders/42', { query: 'wait=60s' })
    await eventually(async () => (await calls.look('orders/42')).waiting === 1, 'the call that waits')
    await first.release()
    const second = await waiting
    expect(second.fence).toBeGreaterThan(first.fence)
    const third = locks.acquire('orders/42')
    await eventually(async () => (await calls.look('orders/42')).waiting === 1, 'the client that waits')
    await calls.delete('orders/42', { id: second.id })
    expect((await third).fence).toBeGreaterThan(second.fence)
  })

  test('a call that waits longer than its ttl keeps its place, and gets a whole ttl', async () => {
    const driver = store()
    const { url } = await startServer({ driver })
    const calls = new LockCalls(url)
    const holder = await calls.take('orders/42', { query: 'ttl=1h' })
    const waiting = calls.take('orders/42', { query: 'ttl=3s&wait=60s' })
    const queued = async () =>
      (await driver.list({ key: 'default/named:orders/42' })).keys[0]?.claims.find(({ state }) => state === 'waiting')
    const since = (await eventually(queued, 'the call that waits')).enteredAt
    const renewed = await eventually(async () => {
      const claim = await queued()
      return claim !== undefined && claim.renewalCount >= 3 && claim
    }, 'renewals of the claim that waits')
    expect(renewed.enteredAt).toBe(since)
    await calls.delete('orders/42', { id: holder.id })
    const lease = await waiting
    expect(lease.ttlMs).toBe(3000)
    // Counted from before the call was sent, the lease ends later than the wait alone.
    expect(lease.waitedMs).toBeGreaterThanOrEqual(2000)
  })

  test('a call that has waited as long as it wanted leaves the queue', async () => {
    const { url } = await startServer({ driver: store() })
    const calls = new LockCalls(url)
    const holder = await calls.take('orders/42')
    const late = await calls.put('orders/42', { query: 'wait=50ms' })
    expect(late).toMatchObject({ status: 409, value: { code: 'TIMEOUT' } })
    expect(late.headers.get('retry-after')).toBe('1')
    expect(await calls.look('orders/42')).toMatchObject({ held: 1, waiting: 0 })
    await calls.delete('orders/42', { id: holder.id })
    expect(await calls.look('orders/42')).toMatchObject({ held: 0 })
  })

  test.each(['made by the server', 'of its own'])(
    'a caller that goes while it waits leaves nothing: id %s',
    async (whose) => {
      const { url } = await startServer({ driver: store() })
      const calls = new LockCalls(url)
      const holder = await calls.take('orders/42')
      const gone = new AbortController()
      const id = whose === 'of its own' ? { id: calls.newId() } : {}
      const waiting = calls.put('orders/42', { query: 'wait=60s', signal: gone.signal, ...id })
      await eventually(async () => (await calls.look('orders/42')).waiting === 1, 'the call that waits')
      gone.abort()
      await expect(waiting).rejects.toThrow()
      await eventually(async () => (await calls.look('orders/42')).waiting === 0, 'the empty queue')
      await calls.delete('orders/42', { id: holder.id })
      expect(await calls.look('orders/42')).toMatchObject({ held: 0, waiting: 0 })
    },
  )

  test('a call sent again with its id is one claim: held, waiting, or waiting twice', async () => {
    const { url } = await startServer({ driver: store() })
    const calls = new LockCalls(url)
    const [id, other] = [calls.newId(), calls.newId()]
    const first = await calls.take('orders/42', { id })
    expect(first.id).toBe(id)
    expect(await calls.take('orders/42', { id })).toMatchObject({ id, fence: first.fence })

    const gone = new AbortController()
    const waits = [
      calls.put('orders/42', { id: other, query: 'wait=60s', signal: gone.signal }),
      calls.put('orders/42', { id: other, query: 'wait=60s' }),
    ] as const
    await eventually(async () => (await calls.look('orders/42')).waiting === 1, 'the claim that waits')
    await eventually(async () => (await waitsUnderWay(url)) === 2, 'both calls')
    gone.abort()
    await expect(waits[0]).rejects.toThrow()
    await eventually(async () => (await waitsUnderWay(url)) === 1, 'the end of the first call')
    expect(await calls.look('orders/42')).toMatchObject({ held: 1, waiting: 1 })
    await calls.delete('orders/42', { id })
    expect(leaseIn(await waits[1])).toMatchObject({ id: other })
  })

  test('shared locks are held together, up to their limit', async () => {
    const { url } = await startServer({ driver: store() })
    const calls = new LockCalls(url)
    const readers = await Promise.all([1, 2, 3].map(() => calls.take('report', { query: 'mode=shared' })))
    expect(new Set(readers.map(({ fence }) => fence)).size).toBe(3)
    expect(await calls.put('report')).toMatchObject({ status: 409, value: { code: 'HELD' } })

    const permits = await Promise.all([1, 2].map(() => calls.take('pool', { query: 'limit=2' })))
    expect(await calls.put('pool', { query: 'limit=2&mode=shared' })).toMatchObject({ value: { code: 'HELD' } })
    expect(await calls.put('pool', { query: 'limit=3' })).toMatchObject({
      status: 409,
      value: { code: 'SCOPE_MISMATCH' },
    })
    const waiting = calls.take('pool', { query: 'limit=2&wait=60s' })
    await eventually(async () => (await calls.look('pool')).waiting === 1, 'the call that waits')
    await calls.delete('pool', { id: permits[0]?.id ?? '' })
    expect((await waiting).fence).toBeGreaterThan(permits[0]?.fence ?? Infinity)
  })

  test('a higher priority goes first', async () => {
    const { url } = await startServer({ driver: store() })
    const calls = new LockCalls(url)
    const holder = await calls.take('orders/42')
    const order: string[] = []
    const waiting = async (name: string, priority: number, ahead: number): Promise<void> => {
      const lease = calls.take('orders/42', { query: `wait=60s&priority=${priority}` })
      await eventually(async () => (await calls.look('orders/42')).waiting === ahead, `${name} in the queue`)
      ends.push(turn(name, lease))
    }
    const turn = async (name: string, lease: Promise<AnsweredLease>): Promise<void> => {
      const { id } = await lease
      order.push(name)
      await calls.delete('orders/42', { id })
    }
    const ends: Promise<void>[] = []
    await waiting('low', -5, 1)
    await waiting('middle', 0, 2)
    await waiting('high', 5, 3)
    await calls.delete('orders/42', { id: holder.id })
    await Promise.all(ends)
    expect(order).toEqual(['high', 'middle', 'low'])
  })

  test('a claim released by another call while it waits is given up', async () => {
    const { url } = await startServer({ driver: store() })
    const calls = new LockCalls(url)
    await calls.take('orders/42')
    const id = calls.newId()
    const waiting = calls.put('orders/42', { id, query: 'wait=60s' })
    await eventually(async () => (await calls.look('orders/42')).waiting === 1, 'the call that waits')
    expect((await calls.delete('orders/42', { id })).value).toEqual({ released: true })
    expect(await waiting).toMatchObject({ status: 409, value: { code: 'ABORTED' } })
  })

  test('a server that closes sends those away who wait; a caller with its own id finds its place at the next one', async () => {
    const driver = kind()
    const first = await serve({ driver: driver(), port: 0 })
    const second = await startServer({ driver: driver() })
    const [calls, next] = [new LockCalls(first.url), new LockCalls(second.url)]
    const holder = await calls.take('orders/42', { query: 'ttl=1h' })
    const id = calls.newId()
    const own = calls.put('orders/42', { id, query: 'ttl=1h&wait=60s' })
    await eventually(async () => (await next.look('orders/42')).waiting === 1, 'the first in the queue')
    const made = calls.put('orders/42', { query: 'wait=60s' })
    await eventually(async () => (await next.look('orders/42')).waiting === 2, 'the second in the queue')
    await first.close()
    for (const answer of [await own, await made]) {
      expect(answer).toMatchObject({ status: 503, value: { code: 'UNAVAILABLE', reason: 'draining' } })
      expect(answer.headers.get('retry-after')).toBe('1')
    }
    expect(await next.look('orders/42')).toMatchObject({ held: 1, waiting: 1 })
    // With such a ttl nobody polls for long: it is the notification that reaches the server by now.
    const again = next.take('orders/42', { id, query: 'ttl=1h&wait=60s' })
    const gone = new AbortController()
    const behind = next.put('orders/42', { query: 'wait=60s', signal: gone.signal })
    await eventually(async () => (await next.look('orders/42')).waiting === 2, 'one more behind')
    await next.delete('orders/42', { id: holder.id })
    const lease = await again
    expect(lease.id).toBe(id)
    // Not only when its time to wait was over.
    expect(lease.waitedMs).toBeLessThan(60_000)
    gone.abort()
    await expect(behind).rejects.toThrow()
  })
})

async function waitsUnderWay(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  return Number(/^leasehold_server_waits_under_way (\d+)$/m.exec(text)?.[1])
}
