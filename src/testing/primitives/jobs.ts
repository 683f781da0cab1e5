import { setTimeout as pause } from 'node:timers/promises'
import { expect } from '../vitest.ts'
import type { Task } from '../../api/primitives/task.ts'
import type { Job } from '../../api/primitives/work.ts'
import { codeOf } from './eventually.ts'
import type { PrimitiveFact } from './fact.ts'

/** Jobs that run once, tasks that run once at a time, and leases that change hands. */
export function jobs(fact: PrimitiveFact): void {
  fact('once runs on one of many machines, and keeps the others off for atLeast', ['handOff'], async (group) => {
    const machines = [await group.member(), await group.member(), await group.member()]
    const options = { atMost: 30_000, atLeast: 3000 }
    const startedAt = performance.now()
    let runs = 0
    const all = async () => {
      const results = await Promise.all(machines.map(({ locks }) => locks.once('job', options, () => (runs += 1))))
      return results.filter(({ ran }) => ran).length
    }
    expect(await all()).toBe(1)
    expect(await all()).toBe(0)
    await group.until(async () => (await all()) === 1)
    expect(performance.now() - startedAt).toBeGreaterThan(2900)
    expect(runs).toBe(2)
  })

  fact(
    'a failed run counts as a run, or leaves the lock to the next machine, as onError says',
    ['handOff'],
    async (group) => {
      const [member, rival] = [await group.member(), await group.member()]
      const failing = (): never => {
        throw new Error('no disk')
      }
      const options = { atMost: 30_000, atLeast: 30_000 }
      await expect(member.locks.once('kept', options, failing)).rejects.toThrow('no disk')
      expect(await rival.locks.once('kept', options, () => {})).toEqual({ ran: false })
      const release = { ...options, onError: 'release' } as const
      await expect(member.locks.once('released', release, failing)).rejects.toThrow('no disk')
      expect(await rival.locks.once('released', release, () => 'done')).toMatchObject({ ran: true, result: 'done' })
      expect(await member.locks.once('released', release, () => {})).toEqual({ ran: false })
    },
  )

  fact('a store whose claims end with their client refuses once and hand-off', ['no handOff'], async (group) => {
    const { locks } = await group.member()
    let runs = 0
    expect(await codeOf(locks.once('job', { atMost: 5000 }, () => (runs += 1)))).toBe('UNSUPPORTED')
    expect(runs).toBe(0)
    const lease = await locks.acquire('a')
    expect(await codeOf(lease.handOff())).toBe('UNSUPPORTED')
    expect(await codeOf(locks.resume(lease.toJSON()))).toBe('UNSUPPORTED')
    expect(lease.held).toBe(true)
    await lease.release()
    await group.expectClaims(0)
  })

  fact('a task is one worker’s, and goes to the next when that falls silent', [], async (group) => {
    const [member, rival] = [await group.member({ ttl: 3000 }), await group.member({ ttl: 5000 })]
    const task = (await member.locks.claim('queue', 'task')) as Task
    expect(await rival.locks.claim('queue', 'task')).toMatchObject({
      state: 'taken',
      by: { id: member.locks.runner.id },
    })
    await task.heartbeat()
    member.driver.plan = { reject: 1 }
    let again = task
    await group.until(async () => {
      const claim = await rival.locks.claim('queue', 'task')
      if (claim.state === 'claimed') again = claim
      return claim.state === 'claimed'
    })
    expect(again.fence).toBeGreaterThan(task.fence)
    expect(task.signal.aborted).toBe(true)
    expect(await codeOf(task.complete())).toBe('NOT_HELD')
    await again.complete({ remember: 0 })
    await group.expectClaims(0)
  })

  fact('workers of two clients share a queue, and no task has two of them at once', [], async (group) => {
    const members = [await group.member({ ttl: 5000 }), await group.member({ ttl: 5000 })]
    const open = new Set(['1', '2', '3', '4', '5', '6'])
    const running = new Set<string>()
    const errors: unknown[] = []
    const options = {
      source: () => [...open],
      concurrency: 2,
      pause: { min: 50, max: 200 },
      remember: 0,
      onError: (error: unknown) => errors.push(error),
    } as const
    const loops = members.map(({ locks }) =>
      locks.work('queue', options, async ({ item, signal }) => {
        if (running.has(item)) throw new Error(`Task ${item} has two workers`)
        running.add(item)
        await pause(30)
        running.delete(item)
        if (!signal.aborted) open.delete(item)
      }),
    )
    await group.until(() => open.size === 0)
    await Promise.all(loops.map((loop) => loop.stop()))
    expect(errors).toEqual([])
    await group.expectClaims(0)
  })

  fact('the task of a worker that falls silent goes to another worker', [], async (group) => {
    const [member, rival] = [await group.member({ ttl: 3000 }), await group.member({ ttl: 5000 })]
    const options = { source: () => ['task'], pause: { min: 50, max: 300 }, remember: 0, onError: () => {} } as const
    const untilAborted = (signal: AbortSignal): Promise<void> =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true })
      })
    const started: { readonly by: string; readonly fence: number }[] = []
    const handler = (by: string) => (job: Job<string>) => {
      started.push({ by, fence: job.fence })
      return untilAborted(job.signal)
    }
    const silent = member.locks.work('queue', options, handler('silent'))
    await group.until(() => started.length === 1)
    member.driver.plan = { reject: 1 }
    const other = rival.locks.work('queue', { ...options, stopWithin: 0 }, handler('other'))
    await group.until(() => started.length === 2)
    expect(started.map(({ by }) => by)).toEqual(['silent', 'other'])
    expect(started[1]?.fence).toBeGreaterThan(started[0]?.fence ?? Infinity)
    await silent.stop()
    await other.stop()
    member.driver.plan = {}
    await group.expectClaims(0)
  })

  fact('a completed task is told as such for as long as it is remembered', ['convert'], async (group) => {
    const [member, rival] = [await group.member({ ttl: 30_000 }), await group.member({ ttl: 30_000 })]
    const task = (await member.locks.claim('queue', 'task')) as Task
    await task.complete({ remember: 3000 })
    await member.locks.close()
    expect(await rival.locks.claim('queue', 'task')).toMatchObject({
      state: 'completed',
      by: { id: member.locks.runner.id },
    })
    await group.until(async () => (await rival.locks.claim('queue', 'task')).state === 'claimed')
  })

  fact('a store without conversions cannot remember what is completed', ['no convert'], async (group) => {
    const { locks } = await group.member()
    const task = (await locks.claim('queue', 'task')) as Task
    expect(await codeOf(task.complete())).toBe('UNSUPPORTED')
    expect(task.lease.held).toBe(true)
  })

  fact('a lease handed off is never free in between, and lives on in other hands', ['handOff'], async (group) => {
    const [member, rival, third] = [await group.member(), await group.member(), await group.member()]
    const lease = await member.locks.acquire('a', { ttl: 4000 })
    const proof = await lease.handOff()
    await member.locks.close()
    expect(await third.locks.tryAcquire('a')).toBeNull()
    const resumed = await rival.locks.resume(proof)
    expect(resumed.fence).toBe(lease.fence)
    await pause(5000)
    expect(resumed.held).toBe(true)
    expect(await third.locks.tryAcquire('a')).toBeNull()
    expect(await resumed.release()).toEqual({ released: true })
    await group.expectClaims(0)
  })

  fact('a lease with progress is renewed while its holder gets on, and no longer', [], async (group) => {
    const { locks } = await group.member({ ttl: 2500 })
    const lease = await locks.acquire('a', { progress: 2000 })
    for (let round = 0; round < 15; round += 1) {
      await pause(200)
      lease.progress()
    }
    expect(lease.held).toBe(true)
    await group.until(() => !lease.held)
    expect(await locks.tryAcquire('a', { wait: 20_000 })).not.toBeNull()
  })
}
