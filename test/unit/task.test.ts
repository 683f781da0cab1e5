import { describe, expect, test } from 'vitest'
import type { Task } from '../../src/index.ts'
import { locksBench } from './support/bench-of-locks.ts'

describe('a task', () => {
  test('is claimed by one worker, and told as taken to the others', async () => {
    const { client } = locksBench()
    const [one, other] = [await client(), await client()]
    const task = (await one.claim('mails', '7')) as Task
    expect(task).toMatchObject({ state: 'claimed', queue: 'mails', id: '7', fence: expect.any(Number) as number })
    expect(await other.claim('mails', '7')).toMatchObject({ state: 'taken', by: { id: one.runner.id } })
    expect(await other.claim('mails', '8')).toMatchObject({ state: 'claimed' })
    expect(await other.claim('mails:7', '7')).toMatchObject({ state: 'claimed' })
  })

  test('is kept while its worker lives, and taken up again when that has crashed', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    await one.claim('mails', '7', { ttl: '3s' })
    await advance(60_000)
    expect(await other.claim('mails', '7')).toMatchObject({ state: 'taken' })
    const crashed = (await one.claim('mails', '8', { ttl: '3s', heartbeat: 'manual' })) as Task
    await advance(3000)
    const again = (await other.claim('mails', '8')) as Task
    expect(again.fence).toBeGreaterThan(crashed.fence)
    expect(crashed.signal.aborted).toBe(true)
    await expect(crashed.heartbeat()).rejects.toMatchObject({ code: 'NOT_HELD' })
    await expect(crashed.complete()).rejects.toMatchObject({ code: 'NOT_HELD' })
  })

  test('that is completed is told as completed, by whom and when, after its worker has gone too', async () => {
    const { client, advance, clock } = locksBench()
    const [one, other] = [await client(), await client({ defaults: { onConflict: 'steal-stale' } })]
    const task = (await one.claim('mails', '7', { metadata: { try: 1 } })) as Task
    await advance(1000)
    await task.complete()
    const at = new Date(clock.wall())
    await one.close()
    await advance(1_800_000)
    expect(await other.claim('mails', '7')).toMatchObject({ state: 'completed', by: { id: one.runner.id }, at })
    await advance(1_800_000)
    expect(await other.claim('mails', '7'), 'the mark has run out').toMatchObject({ state: 'claimed' })
  })

  test('can be completed without a mark, and given back undone', async () => {
    const { client } = locksBench()
    const [one, other] = [await client(), await client()]
    await ((await one.claim('mails', '7')) as Task).complete({ remember: 0 })
    await using task = (await other.claim('mails', '7')) as Task
    await task.release()
    expect(await one.claim('mails', '7')).toMatchObject({ state: 'claimed' })
  })

  test('goes on with heartbeats by hand, and stops with progress', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const task = (await locks.claim('mails', '7', { ttl: '3s', progress: '5s' })) as Task
    for (let round = 0; round < 5; round += 1) {
      await advance(4000)
      await task.heartbeat()
    }
    expect(task.lease.held).toBe(true)
    await advance(10_000)
    expect(task.lease.held).toBe(false)
  })
})
