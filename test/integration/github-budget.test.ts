import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { issue } from '../../src/core/contract/scope.ts'
import { checkHistory, type HistoryEvent } from '../../src/testing/index.ts'
import { startsAt, Scene, type Worker } from '../support/github/scene.ts'
import { useWorldTimers } from '../support/github/world-timers.ts'
import { isLong } from '../support/extent.ts'

const hourMs = 3_600_000

describe('what a lock costs of the budget', () => {
  let scene: Scene
  let number: number
  beforeEach(() => {
    scene = new Scene()
    number = scene.fake.openIssue('Fix it', 'a-person')
  })
  afterEach(() => scene.close())

  /** Requests that count, by the account that made them. */
  const spent = ({ login }: Worker): number => scene.fake.meter(login).requests

  test('five requests an acquisition, of which two are for people, and four a release', async () => {
    const worker = await scene.worker('worker')
    const opened = spent(worker)
    expect(opened).toBe(1)
    const lease = await scene.run(worker.locks.acquire(issue(number)))
    await scene.world.pass(1000)
    expect(spent(worker) - opened).toBe(5)
    await scene.run(lease.release())
    await scene.world.pass(1000)
    expect(spent(worker) - opened).toBe(9)
  })

  test('four requests and some a minute held', async () => {
    const worker = await scene.worker('worker')
    await scene.run(worker.locks.acquire(issue(number)))
    await scene.world.pass(1000)
    const before = spent(worker)
    await scene.world.pass(10 * 60_000)
    expect((spent(worker) - before) / 10).toBeGreaterThanOrEqual(4)
    expect((spent(worker) - before) / 10).toBeLessThanOrEqual(4.5)
  })

  test('six requests at most a minute in line: reads that show nothing new are free', async () => {
    const [holder, waiter] = [await scene.worker('holder'), await scene.worker('waiter')]
    await scene.run(holder.locks.acquire(issue(number), { heartbeat: 'manual', ttl: '1h' }))
    const waiting = waiter.locks.acquire(issue(number)).catch(() => undefined)
    await scene.world.pass(60_000)
    const [before, asked] = [spent(waiter), scene.fake.log.length]
    await scene.world.pass(10 * 60_000)
    const perMinute = (spent(waiter) - before) / 10
    expect(perMinute).toBeLessThanOrEqual(6)
    expect((scene.fake.log.length - asked) / 10).toBeGreaterThan(perMinute)
    await scene.run(waiter.locks.close())
    await waiting
  })

  test('a refused request and nothing more while GitHub wants to hear nothing', async () => {
    const worker = await scene.worker('worker')
    const meter = scene.fake.meter('worker')
    const { allowance } = meter
    meter.allowance = { ...allowance, requestsPerHour: 1 }
    await expect(scene.run(worker.locks.tryAcquire(issue(number)))).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      reason: 'rate-limit',
    })
    const asked = scene.fake.log.length
    const error: unknown = await scene.run(worker.locks.tryAcquire(issue(number)).catch((thrown: unknown) => thrown))
    expect(error).toMatchObject({ reason: 'rate-limit' })
    expect((error as { retryAfterMs: number }).retryAfterMs).toBeGreaterThan(hourMs / 2)
    await scene.world.pass(60_000)
    expect(scene.fake.log.length).toBe(asked)
    meter.allowance = allowance
    await scene.world.pass(hourMs)
    expect((await scene.run(worker.locks.acquire(issue(number)))).held).toBe(true)
  })
})

describe("octokit's plugins", () => {
  test('wait as long as Retry-After says, if that is in time', async () => {
    const scene = new Scene()
    using timers = useWorldTimers(scene.world, startsAt)
    expect(timers).toBeDefined()
    const number = scene.fake.openIssue('Fix it', 'a-person')
    scene.fake.user('team', 'write', 'secret')
    const worker = await scene.worker('team', { token: 'secret', fetch: scene.fetch() })
    let refused = 0
    scene.fake.fault = ({ method }) => {
      if (method !== 'POST' || (refused += 1) > 1) return undefined
      return { status: 403, message: 'You have exceeded a secondary rate limit.', headers: { 'retry-after': '20' } }
    }
    const begunAt = scene.world.now
    const lease = await scene.run(worker.locks.acquire(issue(number)))
    expect(lease.held).toBe(true)
    expect(scene.world.now - begunAt).toBeGreaterThan(25_000)

    // A renewal is not worth waiting for that long: it fails in time, and is tried again.
    scene.fake.fault = ({ method }) =>
      method === 'PATCH'
        ? { status: 429, message: 'secondary rate limit', headers: { 'retry-after': '200' } }
        : undefined
    const failures: number[] = []
    worker.locks.on('renewal-failed', () => failures.push(scene.world.now))
    const brokenAt = scene.world.now
    await scene.world.pass(60_000)
    expect(failures[0]).toBeLessThan(brokenAt + 40_000)
    scene.fake.fault = () => undefined
    await scene.world.pass(240_000)
    expect(lease.held).toBe(true)
    await scene.close()
  })

  test('try again after errors', async () => {
    const scene = new Scene()
    using timers = useWorldTimers(scene.world, startsAt)
    expect(timers).toBeDefined()
    const number = scene.fake.openIssue('Fix it', 'a-person')
    scene.fake.user('team', 'write', 'another secret')
    const worker = await scene.worker('team', { token: 'another secret', fetch: scene.fetch() })
    let failures = 0
    scene.fake.fault = ({ method }) => (method === 'GET' && (failures += 1) % 3 !== 0 ? { status: 502 } : undefined)
    expect((await scene.run(worker.locks.acquire(issue(number)))).held).toBe(true)
    await scene.close()
  })

  test('send no comment again by themselves: it may have arrived', async () => {
    const scene = new Scene()
    using timers = useWorldTimers(scene.world, startsAt)
    expect(timers).toBeDefined()
    const number = scene.fake.openIssue('Fix it', 'a-person')
    scene.fake.user('team', 'write', 'one more secret')
    const worker = await scene.worker('team', { token: 'one more secret', fetch: scene.fetch() })
    let sent = 0
    scene.fake.fault = ({ method }) =>
      method === 'POST' && (sent += 1) === 1 ? { status: 502, carriedOut: true } : undefined
    const lease = await scene.run(worker.locks.acquire(issue(number)))
    const comments = scene.fake.log.filter((line) => line === `POST /repos/acme/tasks/issues/${number}/comments`)
    expect(comments).toHaveLength(1)
    expect(scene.fake.thread(number).map(({ id }) => id)).toEqual([lease.fence])
    await scene.close()
  })
})

/** By `npm run test:all`: it computes for fifteen seconds. */
const testOfAnHour = isLong ? test : () => {}

testOfAnHour('fifty workers stay within what GitHub allows one account in an hour', { timeout: 180_000 }, async () => {
  const scene = new Scene({ lagMs: 2000 })
  const { world, fake } = scene
  using timers = useWorldTimers(world, startsAt)
  expect(timers).toBeDefined()
  const issues = Array.from({ length: 10 }, (_, index) => fake.openIssue(`Task ${index}`, 'a-person'))
  const events: HistoryEvent[] = []
  let lost = 0
  const workers = await Promise.all(
    Array.from({ length: 50 }, async (_, index) => {
      const token = `secret-${index}`
      fake.user('team', 'write', token)
      const worker = await scene.worker('team', { token, fetch: scene.fetch(), workerId: `worker-${index}` })
      worker.locks.on('lost', () => (lost += 1))
      return worker
    }),
  )
  const work = async ({ locks }: Worker, client: string): Promise<void> => {
    // Nobody starts fifty workers in one second.
    await world.wait(world.between(0, 120_000))
    for (let turn = 0; world.now < hourMs; turn += 1) {
      const number = issues[world.between(0, 9)] ?? 0
      const attempt = `${client}/${turn}`
      events.push({ type: 'acquire', at: world.now, client, attempt, key: String(number), mode: 'exclusive' })
      const lease = await locks.acquire(issue(number), { wait: Math.max(1, hourMs - world.now) }).catch(() => undefined)
      if (lease === undefined) return
      events.push({ type: 'granted', at: world.now, attempt, fence: lease.fence })
      await world.wait(world.between(240_000, 480_000))
      events.push({ type: 'release', at: world.now, attempt })
      await lease.release()
    }
  }
  const all = Promise.all(workers.map((worker, index) => work(worker, `client-${index}`)))
  await world.run(world.wait(hourMs - world.now))
  const { requests, most, exceeded } = fake.meter('team')
  // What was counted within the hour; the rest of the work ends after it.
  expect(requests).toBeLessThanOrEqual(5000)
  expect(most.createdPerMinute).toBeLessThanOrEqual(80)
  expect(most.createdPerHour).toBeLessThanOrEqual(500)
  expect(most.pointsPerMinute).toBeLessThanOrEqual(900)
  expect(exceeded).toBe(0)
  expect(lost).toBe(0)
  await scene.run(all)
  const { violations, summary } = checkHistory(events, { fair: false })
  expect(violations).toEqual([])
  expect(summary.holds).toBeGreaterThan(60)
  await scene.close()
})
