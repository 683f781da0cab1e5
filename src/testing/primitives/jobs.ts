import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'vitest'
import type { Task } from '../../api/task.ts'
import type { PrimitiveFact } from './fact.ts'

/** Jobs that run once, tasks that run once at a time, and leases that change hands. */
export function jobs(fact: PrimitiveFact): void {
  fact('once runs on one of many machines, and keeps the others off for atLeast', [], async (company) => {
    const machines = [await company.member(), await company.member(), await company.member()]
    const options = { atMost: 10_000, atLeast: 1000 }
    let runs = 0
    const all = () => Promise.all(machines.map(({ locks }) => locks.once('job', options, () => (runs += 1))))
    expect((await all()).filter(({ ran }) => ran)).toHaveLength(1)
    expect((await all()).filter(({ ran }) => ran)).toHaveLength(0)
    await pause(1200)
    expect((await all()).filter(({ ran }) => ran)).toHaveLength(1)
    expect(runs).toBe(2)
  })

  fact(
    'a task is one worker’s, goes to the next when that falls silent, and is told as completed',
    ['convert'],
    async (company) => {
      const [one, other] = [await company.member({ ttl: 800 }), await company.member({ ttl: 5000 })]
      const task = (await one.locks.claim('queue', 'task')) as Task
      expect(await other.locks.claim('queue', 'task')).toMatchObject({
        state: 'taken',
        by: { id: one.locks.runner.id },
      })
      one.driver.plan = { reject: 1 }
      await pause(1000)
      const again = (await other.locks.claim('queue', 'task')) as Task
      expect(again.state).toBe('claimed')
      expect(task.signal.aborted).toBe(true)
      await again.complete()
      one.driver.plan = {}
      expect(await one.locks.claim('queue', 'task')).toMatchObject({
        state: 'completed',
        by: { id: other.locks.runner.id },
      })
    },
  )

  fact('a lease handed off is never free in between, and lives on in other hands', ['handOff'], async (company) => {
    const [one, other, third] = [await company.member(), await company.member(), await company.member()]
    const lease = await one.locks.acquire('a', { ttl: 1000 })
    const proof = await lease.handOff()
    await one.locks.close()
    expect(await third.locks.tryAcquire('a')).toBeNull()
    const resumed = await other.locks.resume(proof)
    expect(resumed.fence).toBe(lease.fence)
    await pause(1500)
    expect(resumed.held).toBe(true)
    expect(await third.locks.tryAcquire('a')).toBeNull()
    expect(await resumed.release()).toEqual({ released: true })
    await company.expectClaims(0)
  })

  fact('a lease with progress is renewed while its holder gets on, and no longer', [], async (company) => {
    const { locks } = await company.member({ ttl: 600 })
    const lease = await locks.acquire('a', { progress: 500 })
    for (let round = 0; round < 8; round += 1) {
      await pause(200)
      lease.progress()
    }
    expect(lease.held).toBe(true)
    await pause(1800)
    expect(lease.held).toBe(false)
  })
}
