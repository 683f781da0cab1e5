import { afterEach, beforeEach, expect, test } from 'vitest'
import { issue } from '../../src/core/contract/scope.ts'
import { contest } from '../support/github/contest.ts'
import type { Scene, Worker } from '../support/github/scene.ts'

let scene: Scene
let number: number
let first: Worker
let second: Worker
beforeEach(async () => {
  ;({ scene, number, first, second } = await contest({ lagMs: 2000 }, { allowForce: true }))
})
afterEach(() => scene.close())

/** The account has used up its requests faster than the hour passes. */
function press(login: string): void {
  const meter = scene.fake.meter(login)
  meter.allowance = { ...meter.allowance, requestsPerHour: 60 }
  for (let request = 0; request < 40; request += 1) meter.take(scene.world.now, 'read')
}

test('a lease handed off lives on in other hands, with its fence', async () => {
  const lease = await scene.run(first.locks.acquire(issue(number)))
  const proof = await scene.run(lease.handOff())
  expect(lease.held).toBe(false)
  const resumed = await scene.run(second.locks.resume(proof))
  expect(resumed.fence).toBe(lease.fence)
  const edits = (): number => scene.fake.log.filter((line) => line.startsWith('PATCH')).length
  const before = edits()
  await scene.world.pass(600_000)
  expect(resumed.held).toBe(true)
  // Every 27 to 30 seconds, as before.
  expect(edits() - before).toBeGreaterThanOrEqual(19)
  expect(edits() - before).toBeLessThanOrEqual(23)
  expect(await scene.run(first.locks.tryAcquire(issue(number)))).toBeNull()
  await scene.run(resumed.release())
  expect((await scene.run(first.locks.acquire(issue(number)))).fence).toBeGreaterThan(lease.fence)
})

test('a lease that was taken over is not resumed, however scarce requests are', async () => {
  const lease = await scene.run(first.locks.acquire(issue(number)))
  const proof = await scene.run(lease.handOff())
  press('third')
  const third = await scene.worker('third')
  const forced = await scene.run(second.locks.acquire(issue(number), { onConflict: 'force' }))
  await scene.world.pass(5000)
  await expect(scene.run(third.locks.resume(proof))).rejects.toMatchObject({ code: 'NOT_HELD' })
  expect(forced.held).toBe(true)
})
