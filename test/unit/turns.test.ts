import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { deferrer } from '../../src/core/time/event-loop.ts'
import { connect } from '../../src/index.ts'

/** Whether `work`, done again and again, lets a timer of a millisecond fire before it has been done very often. */
async function letsTimersFire(work: () => Promise<unknown>): Promise<boolean> {
  const timer = { hasFired: false }
  const fires = pause(1).then(() => (timer.hasFired = true))
  for (let count = 0; count < 100_000 && !timer.hasFired; count += 1) await work()
  const inTime = timer.hasFired
  await fires
  return inTime
}

test('actions that follow each other for ever leave the event loop its turns', async () => {
  const defer = deferrer()
  expect(await letsTimersFire(() => new Promise<void>((resolve) => defer(resolve)))).toBe(true)
})

test('an action runs when the micro-tasks of its turn are done, and before the next turn', async () => {
  const defer = deferrer()
  const order: string[] = []
  const next = new Promise<void>((resolve) => setImmediate(() => resolve(void order.push('next turn'))))
  defer(() => order.push('deferred'))
  await Promise.resolve().then(() => order.push('micro-task'))
  await next
  expect(order).toEqual(['micro-task', 'deferred', 'next turn'])
})

test('one lock taken after the other keeps no timer from firing, so that leases are renewed meanwhile', async () => {
  await using locks = await connect('memory:')
  expect(await letsTimersFire(async () => (await locks.acquire('a')).release())).toBe(true)
})
