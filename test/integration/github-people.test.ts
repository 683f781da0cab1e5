import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { issue } from '../../src/core/contract/scope.ts'
import { forTask, github, type Mirror } from '../../src/drivers/github/driver.ts'
import { claimIn } from '../../src/drivers/github/protocol/claim-comment.ts'
import { documentIn } from '../../src/drivers/github/protocol/comment-text.ts'
import { Scene, startsAt } from '../support/github/scene.ts'
import { aborted } from '../support/aborted.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene({ lagMs: 2000 })
})
afterEach(() => scene.close())

const task = { complexity: 5, estimated_duration: '45min', task_type: 'bug-fix', priority: 'high' }

describe('a claim', () => {
  test('is a comment with a sentence for people and the fields of the protocol for machines', async () => {
    const { locks } = await scene.worker('worker-local-1')
    const number = scene.fake.openIssue('Fix it', 'a-person')
    const lease = await scene.run(locks.acquire(issue(number), forTask(task)))
    const [comment] = scene.fake.thread(number)
    expect(comment?.id).toBe(lease.fence)
    expect(comment?.body).toContain('🔒 **`worker-local-1`** holds this lock since 2026-01-01 00:00:')
    const document = documentIn('claim', comment?.body ?? '')
    expect(document?.['lock']).toEqual({
      worker_id: 'worker-local-1',
      node_id: expect.any(String) as string,
      claimed_at: expect.stringMatching(/^2026-01-01T00:00:\d\dZ$/) as string,
      heartbeat_last: expect.stringMatching(/^2026-01-01T00:00:\d\dZ$/) as string,
      task_info: task,
    })
  })

  test('tells neither host nor pid nor metadata unless asked to', async () => {
    const secret = { metadata: { customer: 'secret', ...forTask(task).metadata } }
    const { locks } = await scene.worker('quiet', { anonymous: true })
    const number = scene.fake.openIssue('Fix it', 'a-person')
    await scene.run(locks.acquire(issue(number), secret))
    const body = scene.fake.thread(number)[0]?.body ?? ''
    const { hostname } = await import('node:os')
    for (const word of [hostname(), `_${process.pid}`, 'secret', 'platform']) expect(body).not.toContain(word)
    expect(claimIn(body)?.runner.worker).toMatch(/^runner_\d+_[^_]+$/)

    const open = await scene.worker('open', { anonymous: true, publish: ['host', 'pid', 'metadata'] })
    const other = scene.fake.openIssue('Another', 'a-person')
    await scene.run(open.locks.acquire(issue(other), secret))
    const told = claimIn(scene.fake.thread(other)[0]?.body ?? '')?.runner.more
    expect(told).toMatchObject({ host: hostname(), pid: process.pid, metadata: { customer: 'secret' } })
  })

  test('is edited by its heartbeat, and never repeated', async () => {
    const { locks } = await scene.worker('worker')
    const number = scene.fake.openIssue('Fix it', 'a-person')
    const lease = await scene.run(locks.acquire(issue(number)))
    const before = scene.fake.thread(number)[0]?.updatedAt ?? 0
    await scene.world.pass(600_000)
    expect(lease.held).toBe(true)
    expect(scene.fake.thread(number)).toHaveLength(1)
    const [comment] = scene.fake.thread(number)
    expect((comment?.updatedAt ?? 0) - before).toBeGreaterThan(540_000)
    // Every 27 to 30 seconds.
    expect(claimIn(comment?.body ?? '')?.renewals).toBeGreaterThanOrEqual(19)
    expect(claimIn(comment?.body ?? '')?.renewals).toBeLessThanOrEqual(23)
  })

  test('is renewed for as long as its holder says', async () => {
    const { locks } = await scene.worker('worker')
    const number = scene.fake.openIssue('Fix it', 'a-person')
    const lease = await scene.run(locks.acquire(issue(number), { heartbeat: 'manual' }))
    await scene.run(lease.renew('30m'))
    expect(claimIn(scene.fake.thread(number)[0]?.body ?? '')?.ttlMs).toBe(1_800_000)
    await scene.world.pass(1_500_000)
    expect(lease.held).toBe(true)
    const other = await scene.worker('other')
    expect(await scene.run(other.locks.tryAcquire(issue(number)))).toBeNull()
  })

  test('becomes a record of what it was when it is released', async () => {
    const { locks, driver } = await scene.worker('worker')
    const number = scene.fake.openIssue('Fix it', 'a-person')
    const lease = await scene.run(locks.acquire(issue(number)))
    await scene.world.pass(90_000)
    driver.conclude(lease.fence, 'merged')
    await scene.run(lease.release())
    const second = await scene.run(locks.acquire(issue(number)))
    const [comment, next] = scene.fake.thread(number)
    const completion = claimIn(comment?.body ?? '')?.completion
    expect(completion).toMatchObject({ result: 'merged' })
    expect(Math.abs((completion?.durationMs ?? 0) - 90_000)).toBeLessThan(2000)
    expect(comment?.body).toContain('✅ **`worker`** is done (`merged`): held it for 1 min 30 s')
    expect(next?.id).toBe(second.fence)
  })
})

describe('assignee and label', () => {
  test('follow the holder', async () => {
    const [first, second] = [await scene.worker('first'), await scene.worker('second')]
    const number = scene.fake.openIssue('Fix it', 'a-person')
    const seen = () => scene.fake.issues.get(number)
    const lease = await scene.run(first.locks.acquire(issue(number)))
    await scene.world.pass(1000)
    expect(seen()).toMatchObject({ assignees: ['first'], labels: ['leasehold: held'] })
    const waiting = second.locks.acquire(issue(number))
    await scene.world.pass(1000)
    expect(seen()).toMatchObject({ assignees: ['first'] })
    await scene.run(lease.release())
    const other = await scene.run(waiting)
    await scene.world.pass(1000)
    expect(seen()).toMatchObject({ assignees: ['second'], labels: ['leasehold: held'] })
    await scene.run(other.release())
    await scene.world.pass(1000)
    expect(seen()).toMatchObject({ assignees: [], labels: [] })
  })

  test('go from one that died to the one that took over', async () => {
    const [first, second] = [await scene.worker('first'), await scene.worker('second')]
    const number = scene.fake.openIssue('Fix it', 'a-person')
    const lease = await scene.run(first.locks.acquire(issue(number)))
    lease.stopHeartbeat()
    await scene.run(second.locks.acquire(issue(number)))
    await scene.world.pass(1000)
    expect(scene.fake.issues.get(number)).toMatchObject({ assignees: ['second'], labels: ['leasehold: held'] })
  })

  test.each(['second', 'first'])('stay with the one that forced its way in, of the account %s', async (login) => {
    const first = await scene.worker('first')
    const second = await scene.worker(login, {}, { allowForce: true })
    const number = scene.fake.openIssue('Fix it', 'a-person')
    const lease = await scene.run(first.locks.acquire(issue(number)))
    await scene.run(second.locks.acquire(issue(number), { onConflict: 'force' }))
    await scene.world.pass(35_000)
    expect(lease.held).toBe(false)
    expect(scene.fake.issues.get(number)).toMatchObject({ assignees: [login], labels: ['leasehold: held'] })
  })

  test('decide nothing, and may be forbidden', async () => {
    const { locks } = await scene.worker('worker')
    const number = scene.fake.openIssue('Fix it', 'a-person', ['leasehold: held'])
    scene.fake.fault = ({ url }) => (/labels|assignees/.test(url) ? { status: 403 } : undefined)
    const lease = await scene.run(locks.acquire(issue(number)))
    expect(lease.held).toBe(true)
    await scene.run(lease.release())
  })
})

test('a mirror that is shared keeps what the next holder wrote, when the last one notices', async () => {
  const entries = new Map<string, string>()
  const mirror: Mirror = {
    set: (key, value) => entries.set(key, value),
    get: (key) => entries.get(key) ?? null,
    delete: (key) => entries.delete(key),
  }
  const first = await scene.worker('first', { mirror })
  const second = await scene.worker('second', { mirror }, { allowForce: true })
  const number = scene.fake.openIssue('Fix it', 'a-person')
  const lease = await scene.run(first.locks.acquire(issue(number)))
  await scene.run(second.locks.acquire(issue(number), { onConflict: 'force' }))
  await scene.run(aborted(lease.signal))
  await scene.world.pass(50)
  expect(await scene.run(first.driver.status(number))).toMatchObject({ by: 'second', from: 'mirror' })
})

test('a worker and a node are named by the driver, or for one acquisition, and status shows them with the assignee', async () => {
  const { locks, driver } = await scene.worker('worker', { nodeId: 'node-a' })
  const [first, second] = [scene.fake.openIssue('One', 'a-person'), scene.fake.openIssue('Two', 'a-person')]
  const lease = await scene.run(locks.acquire(issue(first)))
  const found = await scene.run(driver.status(first))
  expect(found).toMatchObject({ by: 'worker', node: 'node-a', assignee: 'worker', fence: lease.fence })
  const options = forTask({ complexity: 5 }, { workerId: 'worker-local-1', nodeId: 'node-abc123' })
  await scene.run(locks.acquire(issue(second), options))
  const named = await scene.run(driver.status(second))
  expect(named).toMatchObject({ by: 'worker-local-1', node: 'node-abc123', metadata: { taskInfo: { complexity: 5 } } })
  expect(named.metadata).not.toHaveProperty('taskWorker')
  expect(() => github('a/b', { nodeId: '' })).toThrow('nodeId has 0 characters')
})

test('closing lets go of everything: no claim, no sign, no timer is left', async () => {
  const { locks, driver } = await scene.worker('worker')
  const number = scene.fake.openIssue('Fix it', 'a-person')
  await scene.run(locks.acquire(issue(number)))
  scene.fake.fault = ({ url }) => (/labels|assignees/.test(url) ? {} : undefined)
  await scene.run(locks.close())
  await scene.world.pass(1000)
  expect(scene.world.timers).toBe(0)
  expect(claimIn(scene.fake.thread(number)[0]?.body ?? '')?.completion).toBeDefined()
  await expect(driver.list({})).rejects.toMatchObject({ code: 'CLOSED' })
})

describe('names', () => {
  test('have an issue that is opened for them, once, whoever comes first', async () => {
    const workers = [await scene.worker('one'), await scene.worker('two'), await scene.worker('three')]
    const all = workers.map(({ locks }) => locks.run('deploy', async ({ fence }) => fence))
    const fences = await scene.run(Promise.all(all))
    expect(new Set(fences).size).toBe(3)
    const used = [1, 2, 3].filter((number) => scene.fake.thread(number).length > 0)
    expect(used).toEqual([1])
    expect(scene.fake.issues.get(1)).toMatchObject({ title: 'Lock: deploy' })
    expect(scene.fake.issues.get(1)?.labels).toContain('leasehold')
    const timedOut = await scene.worker('late')
    await scene.run(timedOut.locks.run('deploy', () => {}))
    expect(scene.fake.issues.get(4)).toBeUndefined()
  })

  test('have one issue, the lowest, though readings leave out for a while what others opened', async () => {
    let opened = 0
    for (let seed = 1; seed <= 12; seed += 1) {
      const rush = new Scene({ lagMs: 4900, seed })
      const workers = [await rush.worker('one'), await rush.worker('two'), await rush.worker('three')]
      const fences = workers.map(async ({ locks }) => {
        await rush.world.wait(rush.world.between(0, 3000))
        return locks.run('deploy', async ({ fence }) => fence)
      })
      expect(new Set(await rush.run(Promise.all(fences))).size).toBe(3)
      const issues = [1, 2, 3].filter((number) => rush.fake.issues.get(number) !== undefined)
      expect(issues.filter((number) => rush.fake.thread(number).length > 0)).toEqual([1])
      opened += issues.length
      await rush.close()
    }
    // Else nobody had a choice.
    expect(opened).toBeGreaterThan(12)
  })

  test('whose issue was deleted get another', async () => {
    const { locks } = await scene.worker('worker')
    await scene.run(locks.run('deploy', () => {}))
    scene.fake.issues.set(1, undefined)
    await scene.run(locks.tryAcquire('deploy').catch(() => null))
    const lease = await scene.run(locks.acquire('deploy'))
    expect(scene.fake.thread(2).map(({ id }) => id)).toContain(lease.fence)
  })
})

describe('status', () => {
  test('says whether an issue is locked, by whom, since when, and for what', async () => {
    const { locks, driver } = await scene.worker('worker')
    const number = scene.fake.openIssue('Fix it', 'a-person')
    expect(await scene.run(driver.status(number))).toEqual({ locked: false, from: 'github' })
    await scene.run(locks.acquire(issue(number), forTask(task)))
    await scene.world.pass(60_000)
    const status = await scene.run(locks.status(issue(number)))
    expect(status).toMatchObject({ locked: true, by: 'worker', metadata: { taskInfo: task } })
    const told = await scene.run(driver.status(number))
    expect(told).toMatchObject({ locked: true, by: 'worker', metadata: { taskInfo: task }, from: 'github' })
    // Held five seconds and some after it was asked for, and a minute ago.
    expect(Math.abs((told.since?.getTime() ?? 0) - (startsAt + 6000))).toBeLessThan(2000)
    const { totalAcquisitions, averageAcquisitionTimeMs, staleLocksClaimed } = await scene.run(locks.stats())
    expect({ totalAcquisitions, staleLocksClaimed }).toEqual({ totalAcquisitions: 1, staleLocksClaimed: 0 })
    // Two looks, five seconds apart.
    expect(averageAcquisitionTimeMs).toBeGreaterThan(5000)
    const other = await scene.worker('other')
    expect(await scene.run(other.locks.tryAcquire(issue(number)))).toBeNull()
    const refusal = scene.run(other.locks.acquire(issue(number), { onConflict: 'fail' }))
    await expect(refusal).rejects.toThrow(/Held by worker since/)
    const { totalConflicts, failedAcquisitions } = await scene.run(other.locks.stats())
    expect({ totalConflicts, failedAcquisitions }).toEqual({ totalConflicts: 2, failedAcquisitions: 1 })
  })

  test('is served from the mirror, which decides nothing', async () => {
    const entries = new Map<string, { readonly value: string; readonly ttl: number }>()
    const mirror: Mirror = {
      set: (key, value, { namespace, ttl }) => entries.set(`${namespace} ${key}`, { value, ttl }),
      get: (key, { namespace }) => entries.get(`${namespace} ${key}`)?.value ?? null,
      delete: (key, { namespace }) => entries.delete(`${namespace} ${key}`),
    }
    const { locks, driver } = await scene.worker('worker', { mirror })
    const number = scene.fake.openIssue('Fix it', 'a-person')
    const lease = await scene.run(locks.acquire(issue(number)))
    await scene.world.pass(60_000)
    const key = `distributed-locks lock:issue-${number}`
    expect(entries.get(key)?.ttl).toBe(300_000)
    expect(JSON.parse(entries.get(key)?.value ?? '')).toMatchObject({ lock: { worker_id: 'worker' } })
    const asked = scene.fake.log.length
    expect(await scene.run(driver.status(number))).toMatchObject({ locked: true, by: 'worker', from: 'mirror' })
    expect(scene.fake.log.length).toBe(asked)
    await scene.run(lease.release())
    expect(entries.has(key)).toBe(false)

    // A mirror that lies, one that does not forget the dead, and one that fails.
    entries.set(key, { value: '{"lock":{}}', ttl: 1 })
    const again = await scene.run(locks.acquire(issue(number)))
    expect(again.fence).toBeGreaterThan(lease.fence)
    again.stopHeartbeat()
    await scene.world.pass(301_000)
    expect(entries.has(key)).toBe(true)
    expect(await scene.run(driver.status(number))).toEqual({ locked: false, from: 'github' })
    const last = await scene.run(locks.acquire(issue(number)))
    expect(last.held).toBe(true)
    mirror.get = () => Promise.reject(new Error('no memory'))
    expect(await scene.run(driver.status(number))).toMatchObject({ locked: true, from: 'github' })
  })
})
