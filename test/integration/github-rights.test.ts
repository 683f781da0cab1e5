import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { issue } from '../../src/core/contract/scope.ts'
import type { Lease } from '../../src/index.ts'
import { claimIn, claimCommentText } from '../../src/drivers/github/protocol/claim-comment.ts'
import { takeoverText } from '../../src/drivers/github/protocol/takeover-comment.ts'
import { turnText } from '../../src/drivers/github/protocol/turn-comment.ts'
import { contest } from '../support/github/contest.ts'
import type { Scene, Worker } from '../support/github/scene.ts'

let scene: Scene
let number: number
let first: Worker
let second: Worker
beforeEach(async () => {
  ;({ scene, number, first, second } = await contest({ lagMs: 2000 }))
})
afterEach(() => scene.close())

const taken = (worker: Worker): Promise<Lease> => scene.run(worker.locks.acquire(issue(number)))

describe('rights', () => {
  test('a token that may not write is refused when the store is opened', async () => {
    scene.fake.user('reader', 'read')
    const octokit = scene.octokit('reader')
    scene.fake.user('reader', 'read')
    await expect(scene.worker('reader', { octokit })).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'auth' })
  })

  test.each([401, 403, 404])(
    'answers of %i cost the lock when its lease ends, and the next one gets it',
    async (status) => {
      const lease = await taken(first)
      scene.fake.fault = ({ headers }) =>
        headers['authorization']?.endsWith('of-first') === true ? { status } : undefined
      const failures: unknown[] = []
      first.locks.on('renewal-failed', ({ error }) => failures.push(error))
      const other = await scene.run(second.locks.acquire(issue(number)))
      expect(failures[0]).toMatchObject({ reason: 'auth' })
      expect(lease.held).toBe(false)
      expect(other.fence).toBeGreaterThan(lease.fence)
    },
  )

  test('claims and takeovers of those who may not write count for nothing', async () => {
    scene.fake.user('stranger', 'read', 'token-of-stranger')
    const lease = await taken(first)
    const own = claimIn(scene.fake.thread(number)[0]?.body ?? '')
    if (own === undefined) throw new Error('There is no claim.')
    const { key } = own
    const ends = [{ comment: lease.fence, worker: 'first', held: true }]
    scene.fake.comment(number, 'stranger', takeoverText({ key, by: 'x', cause: 'forced', reason: 'x', at: 0, ends }))
    scene.fake.comment(number, 'stranger', claimCommentText({ ...own, id: 'forged', ttlMs: 3_600_000 }))
    scene.fake.comment(number, 'stranger', claimCommentText({ ...own, id: 'forged too', heldSince: 1 }))
    await scene.world.pass(120_000)
    expect(lease.held).toBe(true)
    await scene.run(lease.release())
    expect((await taken(second)).held).toBe(true)
  })

  test.each(['stranger', 'collaborator'])('a turn that a %s forges moves no holder and no waiter', async (forger) => {
    scene.fake.user('stranger', 'read', 'token-of-stranger')
    scene.fake.user('collaborator', 'write', 'token-of-collaborator')
    const lease = await taken(first)
    const waiting = second.locks.acquire(issue(number))
    await scene.world.pass(5000)
    const [holder, waiter] = scene.fake.thread(number)
    const key = claimIn(holder?.body ?? '')?.key
    if (waiter === undefined || key === undefined) throw new Error('There are no claims.')
    for (const claim of [lease.fence, waiter.id]) {
      scene.fake.comment(number, forger, turnText({ key, claim, left: claim, worker: 'x' }))
    }
    const third = await scene.worker('third')
    expect(await scene.run(third.locks.tryAcquire(issue(number)))).toBeNull()
    await scene.world.pass(120_000)
    expect(lease.held).toBe(true)
    await scene.run(lease.release())
    expect((await scene.run(waiting)).fence, 'the place that the waiter has taken itself').toBe(waiter.id)
  })

  test('the claims of somebody who lost the right count no more, and their holder is told', async () => {
    const lease = await taken(first)
    let lostAt = Infinity
    lease.signal.addEventListener('abort', () => (lostAt = scene.world.now))
    await scene.world.pass(60_000)
    // It may still comment, and edit its own comments: so may anybody.
    scene.fake.user('first', 'read')
    await scene.world.pass(640_000)
    expect(lostAt).toBeLessThan(scene.world.now)
    expect(lease.signal.reason).toMatchObject({ code: 'LOST' })
    const other = await taken(second)
    expect(other.fence).toBeGreaterThan(lease.fence)
    const claim = first.locks.acquire(issue(number))
    await expect(scene.run(claim)).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'auth' })
    await scene.world.pass(10_000)
    const asked = scene.fake.log.length
    await scene.world.pass(20_000)
    // The other one's heartbeat alone: what came to nothing is let go once.
    expect(scene.fake.log.length - asked).toBeLessThanOrEqual(2)
  })

  test('of others are not doubted while GitHub shows us nothing at all', async () => {
    await taken(first)
    const third = await scene.worker('third')
    let hidden = 0
    scene.fake.fault = ({ url, headers }) => {
      const isHidden = headers['authorization']?.endsWith('of-third') === true && !url.includes('/comments')
      return isHidden && (hidden += 1) <= 2 ? { status: 404 } : undefined
    }
    expect(await scene.run(third.locks.tryAcquire(issue(number)).catch(() => null))).toBeNull()
    expect(hidden).toBe(2)
    expect(await scene.run(third.locks.tryAcquire(issue(number)))).toBeNull()
  })

  test('of the accounts themselves are asked for again and again, for next to nothing', async () => {
    await taken(first)
    const before = scene.fake.meter('first').requests
    await scene.world.pass(3_600_000)
    const asked = scene.fake.log.filter((line) => line.includes('/collaborators/first/'))
    expect(asked.length).toBeGreaterThanOrEqual(5)
    // Two edits and two looks a minute, and one question that was not answered "unchanged".
    expect(scene.fake.meter('first').requests - before).toBeLessThanOrEqual(60 * 4.5 + 1)
  })
})

describe('a bot, which is no collaborator and which GitHub says nothing about,', () => {
  test('coordinates with others of its account', async () => {
    const [one, other] = [await scene.worker('tasks[bot]'), await scene.worker('tasks[bot]')]
    const lease = await taken(one)
    expect(await scene.run(other.locks.tryAcquire(issue(number)))).toBeNull()
    await scene.world.pass(3_600_000)
    expect(lease.held).toBe(true)
    await scene.run(lease.release())
    expect((await taken(other)).held).toBe(true)
  })

  test('counts for others if they trust it', async () => {
    const bot = await scene.worker('tasks[bot]')
    const trusting = await scene.worker('third', { trusted: ['tasks[bot]'] })
    await taken(bot)
    expect(await scene.run(trusting.locks.tryAcquire(issue(number)))).toBeNull()
  })
})
