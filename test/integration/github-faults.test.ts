import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { issue } from '../../src/core/contract/scope.ts'
import type { Lease, LeaseholdError } from '../../src/index.ts'
import { claimIn, claimCommentText } from '../../src/drivers/github/protocol/claim-comment.ts'
import { isText } from '../../src/drivers/github/protocol/comment-text.ts'
import { takeoverText } from '../../src/drivers/github/protocol/takeover-comment.ts'
import { claimOf } from '../support/claims.ts'
import { contest } from '../support/github/contest.ts'
import type { HubRequest } from '../support/github/fake-github.ts'
import { startsAt, type Scene, type Worker } from '../support/github/scene.ts'

let scene: Scene
let number: number
let first: Worker
let second: Worker
beforeEach(async () => {
  ;({ scene, number, first, second } = await contest({ lagMs: 2000 }, { allowForce: true }))
})
afterEach(() => scene.close())

const taken = (worker: Worker): Promise<Lease> => scene.run(worker.locks.acquire(issue(number)))
const posts = ({ method, url }: HubRequest): boolean => method === 'POST' && url.endsWith('/comments')
const edits = ({ method }: HubRequest): boolean => method === 'PATCH'

describe('errors of GitHub', () => {
  test('a comment whose answer was lost is found, and not written twice', async () => {
    let failures = 0
    scene.fake.fault = (request) =>
      posts(request) && (failures += 1) === 1 ? { status: 502, carriedOut: true } : undefined
    await taken(first)
    expect(scene.fake.thread(number)).toHaveLength(1)
  })

  test('a comment that did not arrive is written again', async () => {
    let failures = 0
    scene.fake.fault = (request) => (posts(request) && (failures += 1) === 1 ? { status: 503 } : undefined)
    await taken(first)
    expect(failures).toBe(2)
    expect(scene.fake.thread(number)).toHaveLength(1)
  })

  test('of a claim that was written twice the lower comment counts, and the other goes', async () => {
    const lease = await taken(first)
    const [comment] = scene.fake.thread(number)
    const copy = scene.fake.comment(number, 'first', comment?.body ?? '')
    await scene.world.pass(60_000)
    expect(lease.held).toBe(true)
    const waiting = second.locks.acquire(issue(number))
    await scene.world.pass(20_000)
    await scene.run(lease.release())
    const { fence } = await scene.run(waiting)
    expect(fence).toBeGreaterThan(copy.id)
    expect(scene.fake.comments.get(copy.id)).toBeUndefined()
  })

  test('a failing heartbeat is tried again while there is time, and ends nothing', async () => {
    const lease = await taken(first)
    scene.fake.fault = (request) => (edits(request) ? { status: 500 } : undefined)
    await scene.world.pass(200_000)
    scene.fake.fault = () => undefined
    await scene.world.pass(200_000)
    expect(lease.held).toBe(true)
  })

  test('a holder that hears nothing stops before anybody else can hold', async () => {
    const lease = await taken(first)
    const waiting = second.locks.acquire(issue(number))
    await scene.world.pass(5000)
    let lostAt = Infinity
    lease.signal.addEventListener('abort', () => (lostAt = scene.world.now))
    scene.fake.fault = ({ headers }) => (headers['authorization']?.endsWith('of-first') === true ? {} : undefined)
    const other = await scene.run(waiting)
    expect(lostAt).toBeLessThan(scene.world.now)
    expect(other.fence).toBeGreaterThan(lease.fence)
    expect((await scene.run(second.locks.stats())).staleLocksClaimed).toBe(1)
  })

  test('an issue that is not there, or was deleted, is an error that says so', async () => {
    await expect(scene.run(first.locks.tryAcquire(issue(99)))).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      reason: 'auth',
    })
    scene.fake.fault = ({ url }) => (url.includes('/issues/99/') ? { status: 410 } : undefined)
    await expect(scene.run(first.locks.tryAcquire(issue(99)))).rejects.toMatchObject({ reason: 'gone' })
  })

  test('what GitHub does not take is INVALID and not tried again', async () => {
    scene.fake.fault = (request) => (posts(request) ? { status: 422, message: 'Validation Failed' } : undefined)
    await expect(taken(first)).rejects.toMatchObject({ code: 'INVALID' })
    expect(scene.fake.log.filter((line) => line.startsWith('POST'))).toHaveLength(1)
  })

  test('an answer that never comes is given up in time', async () => {
    scene.fake.fault = (request) => (posts(request) ? {} : undefined)
    const outcome = first.locks.acquire(issue(number), { wait: '10m', retry: 'none' })
    await expect(scene.run(outcome)).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'no-answer' })
    expect(scene.world.now).toBeLessThan(300_000)
  })
})

describe('comments that somebody touched', () => {
  test('a deleted claim is an eviction: its holder is told at its next heartbeat', async () => {
    const lease = await taken(first)
    scene.fake.comments.set(lease.fence, undefined)
    const other = await taken(second)
    expect(other.fence).toBeGreaterThan(lease.fence)
    await scene.world.pass(31_000)
    expect(lease.held).toBe(false)
    expect(lease.signal.reason).toMatchObject({ code: 'LOST', reason: 'evicted: its comment was deleted' })
    expect(other.held).toBe(true)
  })

  test('a broken claim goes on status in the way, and the next heartbeat mends it', async () => {
    const lease = await taken(first)
    scene.fake.edit(lease.fence, (scene.fake.comments.get(lease.fence)?.body ?? '').replace('"worker_id"', 'worker_id'))
    expect(await scene.run(second.locks.tryAcquire(issue(number)))).toBeNull()
    await scene.world.pass(31_000)
    expect(lease.held).toBe(true)
    expect(claimIn(scene.fake.comments.get(lease.fence)?.body ?? '')).toBeDefined()
  })

  test('a claim of which nothing can be read is taken over after the longest lease there is', async () => {
    const lease = await taken(first)
    lease.stopHeartbeat()
    scene.fake.edit(lease.fence, '<!-- leasehold:claim -->\nfinished, I think')
    const startedAt = scene.world.now
    const waiting = second.locks.acquire(issue(number))
    await scene.world.pass(3_000_000)
    const other = await scene.run(waiting)
    expect(other.fence).toBeGreaterThan(lease.fence)
    expect(scene.world.now - startedAt).toBeGreaterThan(3_600_000)
  })

  test('a typing error in a released claim blocks nobody', async () => {
    const lease = await taken(first)
    await scene.run(lease.release())
    const body = scene.fake.comments.get(lease.fence)?.body ?? ''
    scene.fake.edit(lease.fence, body.replace('"worker_id"', 'worker_id'))
    expect(claimIn(scene.fake.comments.get(lease.fence)?.body ?? '')).toBeUndefined()
    const startedAt = scene.world.now
    expect((await taken(second)).fence).toBeGreaterThan(lease.fence)
    expect(scene.world.now - startedAt).toBeLessThan(30_000)
  })

  test('a typing error in a claim whose holder is gone blocks for its own ttl, and no longer', async () => {
    const lease = await scene.run(first.locks.acquire(issue(number), { ttl: '30s' }))
    lease.stopHeartbeat()
    const body = scene.fake.comments.get(lease.fence)?.body ?? ''
    scene.fake.edit(lease.fence, body.replace('"worker_id"', 'worker_id'))
    const startedAt = scene.world.now
    expect((await taken(second)).fence).toBeGreaterThan(lease.fence)
    expect(scene.world.now - startedAt).toBeGreaterThan(30_000)
    expect(scene.world.now - startedAt).toBeLessThan(90_000)
  })

  test('a broken claim in one issue is nothing to the locks of others', async () => {
    const lease = await taken(first)
    lease.stopHeartbeat()
    scene.fake.edit(lease.fence, '<!-- leasehold:claim -->\noops')
    const other = scene.fake.openIssue('Another', 'a-person')
    const startedAt = scene.world.now
    const beside = await scene.run(second.locks.acquire(issue(other)))
    expect(beside.held).toBe(true)
    expect(scene.world.now - startedAt).toBeLessThan(30_000)
    const { locks } = await scene.run(second.locks.list())
    expect(locks).toHaveLength(1)
  })

  test('a claim whose text was taken away does not come back once another has been held', async () => {
    const lease = await taken(first)
    scene.fake.edit(lease.fence, 'nothing to see')
    const other = await taken(second)
    await scene.world.pass(120_000)
    expect(lease.held).toBe(false)
    expect(other.held).toBe(true)
  })
})

describe('reads that are older than the settle time allows for', () => {
  const githubTime = (): number => startsAt + scene.world.now

  /** For so long all reads show what was there at that time. */
  async function staleFor(milliseconds: number, asOf = githubTime()): Promise<void> {
    scene.fake.commentsAsOf = asOf
    await scene.world.pass(milliseconds)
    scene.fake.commentsAsOf = undefined
  }

  test('do not end a wait before its time, nor cost a place in the queue', async () => {
    const lease = await taken(first)
    let outcome = 'waits'
    const waiting = second.locks.acquire(issue(number), { wait: '10m' })
    waiting.then(
      () => (outcome = 'granted'),
      (error: Error) => (outcome = error.message),
    )
    // Before its comment shows for the first time.
    await staleFor(40_000)
    expect(outcome).toBe('waits')
    await scene.world.pass(60_000)
    await staleFor(120_000)
    expect(outcome).toBe('waits')
    expect(lease.held).toBe(true)
    await scene.run(lease.release())
    const claims = scene.fake.thread(number).filter(({ body }) => claimIn(body)?.runner.worker === 'second')
    expect((await scene.run(waiting)).fence).toBe(claims[0]?.id)
    expect(claims).toHaveLength(1)
  })

  test('do not make a holder believe that it was evicted', async () => {
    const before = githubTime()
    const lease = await taken(first)
    await staleFor(100_000, before)
    await scene.world.pass(60_000)
    expect(lease.held).toBe(true)
    await scene.run(lease.release())
  })
})

test('a takeover comment that is deleted later brings nobody back', async () => {
  const lease = await taken(first)
  lease.stopHeartbeat()
  const other = await taken(second)
  const takeover = scene.fake.thread(number).find(({ body }) => body.startsWith('<!-- leasehold:takeover -->'))
  expect(takeover?.body).toContain('**`first`** was not heard of for its whole lease')
  scene.fake.comments.set(takeover?.id ?? 0, undefined)
  await scene.world.pass(60_000)
  expect(other.held).toBe(true)
  await scene.run(other.release())
  const askedAt = scene.world.now
  expect((await taken(first)).fence).toBeGreaterThan(other.fence)
  expect(scene.world.now - askedAt).toBeLessThan(30_000)
})

describe('a holder that comes back', () => {
  test('cannot edit itself alive after it was taken over', async () => {
    const lease = await taken(first)
    lease.stopHeartbeat()
    const other = await taken(second)
    // As an edit that was on its way all the time would.
    const record = claimIn(scene.fake.comments.get(lease.fence)?.body ?? '')
    if (record === undefined) throw new Error('There is no claim.')
    scene.fake.edit(lease.fence, claimCommentText({ ...record, renewals: 99 }))
    expect(await scene.run(first.locks.tryAcquire(issue(number)))).toBeNull()
    await scene.world.pass(60_000)
    expect(other.held).toBe(true)
    await scene.run(other.release())
    expect((await taken(first)).fence).toBeGreaterThan(other.fence)
  })

  test('after a takeover that crossed its heartbeat keeps others out until its lease is over', async () => {
    const lease = await taken(first)
    const record = claimIn(scene.fake.comments.get(lease.fence)?.body ?? '')
    if (record === undefined) throw new Error('There is no claim.')
    await scene.world.pass(100_000)
    const ends = [{ comment: lease.fence, worker: 'first', held: true }]
    const { key } = record
    scene.fake.comment(
      number,
      'second',
      takeoverText({ key, by: 'second', cause: 'expired', reason: 'x', at: 0, ends }),
    )
    const waiting = second.locks.acquire(issue(number))
    let lostAt = Infinity
    lease.signal.addEventListener('abort', () => (lostAt = scene.world.now))
    await scene.run(waiting)
    expect(lostAt).toBeLessThan(scene.world.now)
    expect(scene.world.now).toBeGreaterThan(370_000)
  })
})

test('a claim that another thread kept alive is found alive by one that was blocked', async () => {
  const claim = claimOf(`default/issue:${number}`)
  const renew = { op: 'renew', key: claim.key, id: claim.id, ttlMs: claim.ttlMs } as const
  const [granted] = await scene.run(first.driver.send([{ op: 'claim', claim }]))
  expect(granted).toMatchObject({ state: 'held' })
  for (let minute = 0; minute < 5; minute += 1) {
    await scene.world.pass(40_000)
    expect(await scene.run(second.driver.send([renew]))).toMatchObject([{ state: 'held' }])
  }
  expect(await scene.run(first.driver.send([renew]))).toMatchObject([{ state: 'held', ttlMs: 60_000 }])
  await scene.world.pass(70_000)
  expect(await scene.run(first.driver.send([renew]))).toMatchObject([{ state: 'absent', reason: 'expired' }])
})

test('leases last five minutes, heartbeats come every 30 s, and waiters ask after 1, 2, 4, 8 and 16 s', () => {
  expect(first.driver.supports).toMatchObject({
    ttlDefaultMs: 300_000,
    heartbeatDefaultMs: 30_000,
    staleDefaultMs: 300_000,
    pollingDefault: { attempts: Infinity, minMs: 1000, maxMs: 16_000, factor: 2 },
    priority: true,
    evict: ['stale', 'all'],
  })
})

test('a waiter asks after 1, 2, 4, 8 and then every 16 s, give or take a tenth', async () => {
  scene.fake.lagMs = 0
  const lease = await scene.run(first.locks.acquire(issue(number), { heartbeat: 'manual', ttl: '1h' }))
  const readAt: number[] = []
  scene.fake.fault = ({ method, url, headers }) => {
    const isReading = method === 'GET' && url.includes('/comments') && headers['authorization']?.endsWith('of-second')
    if (isReading === true) readAt.push(scene.world.now)
    return undefined
  }
  const waiting = second.locks.acquire(issue(number), { wait: '70s' })
  await expect(scene.run(waiting)).rejects.toMatchObject({ code: 'TIMEOUT' })
  const pauses = readAt.map((at, index) => (at - (readAt[index - 1] ?? at)) / 1000)
  // The first look is for who is there, those at the end are for leaving.
  const expected = [1, 2, 4, 8, 16, 16]
  for (const [index, seconds] of expected.entries()) {
    expect(Math.abs((pauses[index + 1] ?? 0) - seconds), pauses.join(' ')).toBeLessThan(0.1 * seconds + 0.2)
  }
  await scene.run(lease.release())
})

describe('strategies', () => {
  test('fail does not wait and leaves no trace', async () => {
    await taken(first)
    await expect(scene.run(second.locks.acquire(issue(number), { onConflict: 'fail' }))).rejects.toMatchObject({
      code: 'HELD',
    })
    expect(scene.fake.thread(number)).toHaveLength(1)
  })

  test('steal-stale takes a holder that was not heard of for five minutes, or as long as one says', async () => {
    const lease = await taken(first)
    lease.stopHeartbeat()
    await scene.world.pass(100_000)
    const steal = { onConflict: 'steal-stale' } as const
    expect(await scene.run(second.locks.tryAcquire(issue(number), steal))).toBeNull()
    const other = await scene.run(second.locks.tryAcquire(issue(number), { ...steal, staleAfter: '80s' }))
    expect(other?.fence).toBeGreaterThan(lease.fence)
  })

  test('force needs to be allowed, takes the lock at once, and keeps fences growing', async () => {
    const cautious = await scene.worker('cautious')
    await expect(cautious.locks.acquire(issue(number), { onConflict: 'force' })).rejects.toMatchObject({
      code: 'INVALID',
    })
    const lease = await taken(first)
    const waiting = cautious.locks.acquire(issue(number))
    await scene.world.pass(5000)
    const forced = await scene.run(second.locks.acquire(issue(number), { onConflict: 'force' }))
    await scene.world.pass(31_000)
    expect(lease.held).toBe(false)
    expect(lease.signal.reason).toMatchObject({ reason: 'evicted: forced' })
    await scene.run(forced.release())
    const last = await scene.run(waiting)
    expect([lease.fence, forced.fence, last.fence]).toEqual(
      [lease.fence, forced.fence, last.fence].toSorted((one, other) => one - other),
    )
  })

  test('a waiter that a forced claim moved keeps the lease it gets later, and is taken over once when it dies', async () => {
    const cautious = await scene.worker('cautious')
    await taken(first)
    const waiting = cautious.locks.acquire(issue(number))
    await scene.world.pass(5000)
    const forced = await scene.run(second.locks.acquire(issue(number), { onConflict: 'force' }))
    await scene.run(forced.release())
    const last = await scene.run(waiting)
    await scene.world.pass(300_000)
    expect(last.held).toBe(true)
    last.stopHeartbeat()
    expect((await taken(second)).fence).toBeGreaterThan(last.fence)
    const takeovers = scene.fake.thread(number).filter(({ body }) => isText('takeover', body))
    expect(takeovers).toHaveLength(2)
  })

  test('force ends a lease together with its conversion, by one comment', async () => {
    const [reading, other] = [first.locks.readWrite(issue(number)), second.locks.readWrite(issue(number))]
    const [lease] = [await scene.run(reading.read()), await scene.run(other.read())]
    const upgrading = lease.upgrade().then(
      () => 'upgraded',
      ({ code }: LeaseholdError) => code,
    )
    await scene.world.pass(20_000)
    const strong = await scene.worker('strong', {}, { allowForce: true })
    const forced = await scene.run(strong.locks.acquire(issue(number), { onConflict: 'force' }))
    expect(await scene.run(upgrading)).toBe('NOT_HELD')
    const takeovers = scene.fake.thread(number).filter(({ body }) => isText('takeover', body))
    expect(takeovers).toHaveLength(1)
    await scene.world.pass(120_000)
    expect([lease.held, forced.held]).toEqual([false, true])
  })

  test('a more urgent claim goes first once the others have stepped back, and their fences grow', async () => {
    const [holder, high] = [await scene.worker('holder'), await scene.worker('high')]
    const lease = await scene.run(holder.locks.acquire(issue(number)))
    const normal = first.locks.acquire(issue(number))
    await scene.world.pass(10_000)
    const urgent = high.locks.acquire(issue(number), { priority: 'high' })
    await scene.world.pass(60_000)
    await scene.run(lease.release())
    const granted = await scene.run(urgent)
    expect(granted.fence).toBeGreaterThan(lease.fence)
    await scene.run(granted.release())
    const last = await scene.run(normal)
    expect(last.fence).toBeGreaterThan(granted.fence)
    const bodies = scene.fake.thread(number).map(({ body }) => body)
    expect(bodies.filter((body) => body.startsWith('<!-- leasehold:turn -->'))).toHaveLength(1)
  })
})
