import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { issue } from '../../src/core/contract/scope.ts'
import { contest } from '../support/github/contest.ts'
import type { Scene, Worker } from '../support/github/scene.ts'

let scene: Scene
let number: number
let first: Worker
let second: Worker
beforeEach(async () => {
  ;({ scene, number, first, second } = await contest({}))
})
afterEach(() => scene.close())

/** A busy issue: people talk in it. */
function chatter(count: number): number[] {
  return Array.from({ length: count }, (_, index) => scene.fake.comment(number, 'a-person', `Remark ${index}`).id)
}

describe('a long issue', () => {
  test('is read to its end, though its first page has not changed since it was the last one', async () => {
    chatter(99)
    await scene.run(first.locks.acquire(issue(number), { heartbeat: 'manual' }))
    // Kept now: a page of a hundred comments, and none after it.
    expect(await scene.run(second.locks.tryAcquire(issue(number)))).toBeNull()
    const waiting = second.locks.acquire(issue(number), { wait: '60s' })
    await expect(scene.run(waiting)).rejects.toMatchObject({ code: 'TIMEOUT' })
  })

  test('shows a claim that moved to an earlier page while the pages were read', async () => {
    const remarks = chatter(102)
    const lease = await scene.run(first.locks.acquire(issue(number)))
    scene.fake.fault = ({ method, url }) => {
      const isSecondPage = method === 'GET' && url.includes(`/issues/${number}/comments`) && /[?&]page=2\b/.test(url)
      if (isSecondPage) for (const remark of remarks.splice(0, 3)) scene.fake.comments.set(remark, undefined)
      return undefined
    }
    await scene.world.pass(31_000)
    expect(remarks).toHaveLength(99)
    expect(lease.held).toBe(true)
    expect(await scene.run(second.locks.tryAcquire(issue(number)))).toBeNull()
  })
})

test('an issue for a name whose opening was lost is opened again, without a storm of questions', async () => {
  let failures = 0
  scene.fake.fault = ({ method, url }) =>
    method === 'POST' && url.endsWith('/issues') && (failures += 1) === 1 ? { status: 502 } : undefined
  const asked = scene.fake.log.length
  const lease = await scene.run(first.locks.acquire('deploy'))
  expect(lease.held).toBe(true)
  expect(failures).toBe(2)
  expect(scene.world.now).toBeLessThan(30_000)
  expect(scene.fake.log.length - asked).toBeLessThan(15)
})
