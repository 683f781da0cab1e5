import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import type { SqliteEnvironment } from '../../src/drivers/sqlite/driver.ts'
import { openDatabase } from '../../src/drivers/sqlite/database.ts'
import { ask, claim, claimOf, release, renew } from '../support/claims.ts'
import { scratch } from '../sqlite/scratch.ts'
import { eventually } from '../support/eventually.ts'

const { file, driver } = scratch()

/** Beside another request it keeps both from the short way. */
const nothing = { op: 'release', key: 'nothing', id: 'nothing' } as const

/** A machine with a clock that a test moves: a second one is another boot, or another computer. */
function machine(boot: string, time: number) {
  const wall = 1_700_000_000_000
  const self = {
    time,
    dead: new Set<number>(),
    /** A driver in a process of this machine. */
    start(pid: number, namespace = '77'): Promise<LockDriver> {
      const environment: Partial<SqliteEnvironment> = {
        boot,
        clock: { now: () => self.time, wall: () => wall },
        process: { namespace, pid, started: pid },
        isGone: (stamp, observer) =>
          stamp.boot === observer.boot && stamp.namespace === observer.namespace && self.dead.has(stamp.pid),
      }
      return driver({ file: file(), environment })
    },
  }
  return self
}

test('a lease of another boot has its full ttl from when it was first seen', async () => {
  const before = machine('boot-1', 9_000_000)
  const held = claimOf('a', { ttlMs: 10_000 })
  await claim(await before.start(1), held)

  const after = machine('boot-2', 50)
  const next = claimOf('a', { wait: false })
  const one = await after.start(2)
  expect(await claim(one, next)).toMatchObject({ state: 'absent', reason: 'refused' })
  after.time += 9_999
  expect(await claim(one, { ...next, id: 'second' })).toMatchObject({ state: 'absent', reason: 'refused' })
  after.time += 1
  expect(await claim(one, { ...next, id: 'third' })).toMatchObject({ state: 'held', after: { how: 'expired' } })
})

test('all processes of a boot share its first sight, so a job started anew each time gets its turn', async () => {
  await claim(await machine('boot-1', 9_000_000).start(1), claimOf('a', { ttlMs: 10_000 }))
  const after = machine('boot-2', 50)
  const first = await after.start(2)
  expect(await claim(first, claimOf('a', { wait: false }))).toMatchObject({ state: 'absent' })
  await first.close()
  after.time += 10_000
  expect(await claim(await after.start(3), claimOf('a', { wait: false }))).toMatchObject({ state: 'held' })
})

test('processes that share no clock share a coarse one for what they see, so a job started anew each time gets its turn', async () => {
  let uptimeMs = 500_000
  const sightClock = { name: () => 'up-1', now: () => uptimeMs, marginMs: 11_000 }
  // Each process has a boot of its own, as its clock is.
  const start = (pid: number): Promise<LockDriver> => {
    const clock = { now: () => uptimeMs - 500_000, wall: () => 1_700_000_000_000 }
    const identity = { namespace: '77', pid, started: pid }
    const environment = { boot: `clock-${pid}`, clock, sightClock, process: identity, isGone: () => false }
    return driver({ file: file(), environment })
  }
  await claim(await start(1), claimOf('a', { ttlMs: 10_000 }))
  const outcomes: string[] = []
  for (let pid = 2; pid <= 24; pid += 1) {
    const job = await start(pid)
    const status = await claim(job, claimOf('a', { wait: false }))
    outcomes.push(status.state)
    await job.close()
    if (status.state === 'held') break
    uptimeMs += 1_000
  }
  // Not before the ttl and the margin are over, counted from the first sight.
  expect(outcomes).toEqual([...Array.from({ length: 21 }, () => 'absent'), 'held'])
})

test('a live holder on another clock is left alone as long as it renews', async () => {
  const here = machine('boot-1', 1_000)
  const there = machine('boot-2', 7_000_000)
  const stamp = await here.start(1)
  const observer = await there.start(2)
  const held = claimOf('a', { ttlMs: 10_000 })
  await claim(stamp, held)
  for (let round = 0; round < 5; round += 1) {
    expect(await claim(observer, claimOf('a', { wait: false }))).toMatchObject({ state: 'absent' })
    here.time += 8_000
    there.time += 8_000
    expect(await renew(stamp, held)).toMatchObject({ state: 'held', ttlMs: 10_000 })
  }
  there.time += 9_999
  expect(await claim(observer, claimOf('a', { wait: false }))).toMatchObject({ state: 'absent' })
})

test('an observer of another boot never rewrites a lease, not even when it grants it', async () => {
  const here = machine('boot-1', 1_000)
  const there = machine('boot-2', 7_000_000)
  const stamp = await here.start(1)
  const observer = await there.start(2)
  const inFront = claimOf('a')
  const waiting = claimOf('a', { ttlMs: 10_000 })
  await claim(observer, inFront)
  expect(await claim(stamp, waiting)).toMatchObject({ state: 'waiting' })
  here.time += 3_000
  await release(observer, inFront)
  const granted = await claim(stamp, waiting)
  expect(granted).toMatchObject({ state: 'held', ttlMs: 7_000 })
  expect(await renew(stamp, waiting)).toMatchObject({ state: 'held', ttlMs: 10_000 })
})

test('a renewal puts the stamp of the renewing process on the claim', async () => {
  const here = machine('boot-1', 1_000)
  const first = await here.start(1)
  const second = await here.start(2)
  const held = claimOf('a')
  await claim(first, held)
  await renew(second, held)
  here.dead.add(1)
  expect(await claim(await here.start(3), claimOf('a', { wait: false }))).toMatchObject({ state: 'absent' })
  here.dead.add(2)
  expect(await claim(await here.start(4), claimOf('a', { wait: false }))).toMatchObject({
    state: 'held',
    after: { how: 'died' },
  })
})

test('two containers on one file do not take each other for dead', async () => {
  const here = machine('boot-1', 1_000)
  const held = claimOf('a')
  await claim(await here.start(1, '77'), held)
  here.dead.add(1)
  expect(await claim(await here.start(2, '78'), claimOf('a', { wait: false }))).toMatchObject({ reason: 'refused' })
  expect(await claim(await here.start(3, '77'), claimOf('a', { wait: false }))).toMatchObject({ state: 'held' })
})

test('a detached claim outlives its process until its ttl ends', async () => {
  const here = machine('boot-1', 1_000)
  await claim(await here.start(1), claimOf('a', { detached: true, ttlMs: 5_000 }))
  here.dead.add(1)
  const next = await here.start(2)
  expect(await claim(next, claimOf('a', { wait: false }))).toMatchObject({ reason: 'refused' })
  here.time += 5_000
  expect(await claim(next, claimOf('a', { wait: false }))).toMatchObject({ state: 'held', after: { how: 'expired' } })
})

test('a dead holder blocks for its grace and is then succeeded as dead', async () => {
  const here = machine('boot-1', 1_000)
  await claim(await here.start(1), claimOf('a', { graceMs: 2_000 }))
  here.dead.add(1)
  const next = await here.start(2)
  expect(await claim(next, claimOf('a', { wait: false }))).toMatchObject({ reason: 'refused' })
  here.time += 2_000
  expect(await claim(next, claimOf('a', { wait: false }))).toMatchObject({ state: 'held', after: { how: 'died' } })
})

test('whoever waits is told to ask when a process in front of it dies', async () => {
  const here = machine('boot-1', 1_000)
  await claim(await here.start(1), claimOf('a'))
  const second = await here.start(2)
  const received: string[] = []
  second.listen?.((key, id, notification) => received.push(`${key} ${id} ${JSON.stringify(notification)}`))
  const waiting = claimOf('a')
  await claim(second, waiting)
  here.dead.add(1)
  expect(await eventually(() => received[0], 'a nudge')).toBe(`a ${waiting.id} "poll"`)
  expect(await renew(second, waiting)).toMatchObject({ state: 'held', after: { how: 'died' } })
})

test('fences begin at the wall clock, and go on by one where that stands still, also after a reboot', async () => {
  const before = machine('boot-1', 1_000)
  const one = await before.start(1)
  const fences: number[] = []
  const take = async (from: LockDriver) => {
    const wanted = claimOf('a')
    const status = await claim(from, wanted)
    if (status.state === 'held') fences.push(status.fence)
    await release(from, wanted)
  }
  await take(one)
  await take(one)
  await take(await machine('boot-2', 5).start(2))
  const [first = 0, second = 0, third = 0] = fences
  expect(first).toBe(1_700_000_000_000_000)
  expect(second).toBe(first + 1)
  expect(third).toBeGreaterThan(second)
})

test.each(['an idle key', 'a hand-over', 'the rule'])(
  'fences of a file restored from an older copy within a boot go on past those given since, by %s',
  async (way) => {
    let wall = 1_700_000_000_000
    const environment: Partial<SqliteEnvironment> = { clock: { now: () => 1_000, wall: () => (wall += 1) } }
    const first = await driver({ file: file(), environment })
    await claim(first, claimOf('before'))
    await first.close()
    const names = readdirSync(path.dirname(file())).filter((name) => !name.endsWith('.inboxes'))
    const copies = names.map((name) => [file(name), readFileSync(file(name))] as const)

    const second = await driver({ file: file(), environment })
    let last = 0
    for (let round = 0; round < 20; round += 1) {
      const status = await claim(second, claimOf(`given-${round}`))
      if (status.state === 'held') last = status.fence
    }
    await second.close()
    for (const [name, bytes] of copies) {
      rmSync(name, { force: true })
      writeFileSync(name, bytes)
    }

    const third = await driver({ file: file(), environment })
    const [one, other] = [claimOf('a'), claimOf('a')]
    const [granted] = await third.send(
      way === 'the rule' ? [{ op: 'claim', claim: one }, nothing] : [{ op: 'claim', claim: one }],
    )
    let status = granted
    if (way === 'a hand-over') {
      await claim(third, other)
      // As a copy would have them that was made before the holder came.
      const hand = openDatabase(file())
      hand.exec("update held set fence = 7 where key = x''")
      hand.close()
      await release(third, one)
      status = await claim(third, other)
    }
    expect((status as { fence: number }).fence).toBeGreaterThan(last)
  },
)

test('names that nobody asks for again leave the file with the next opening', async () => {
  const here = machine('boot-1', 1_000)
  const first = await here.start(1)
  for (let name = 0; name < 20; name += 1) await claim(first, claimOf(`once-${name}`, { ttlMs: 1_000 }))
  here.time += 1_000
  const second = await here.start(2)
  expect((await second.list({})).keys).toEqual([])
})

test('an operator sees the claims of another boot in the clock of this one', async () => {
  const before = machine('boot-1', 9_000_000)
  const held = claimOf('a', { ttlMs: 10_000 })
  await claim(await before.start(1), held)
  const after = machine('boot-2', 50)
  const observer = await after.start(2)
  after.time += 4_000
  const { now, keys } = await observer.list({ key: 'a' })
  expect(now).toBe(4_050)
  expect(keys[0]?.claims[0]).toMatchObject({ id: held.id, expiresAt: 10_050, lastHeartbeat: 50 })
  expect(await ask(observer, { op: 'evict', key: 'a', fence: keys[0]?.claims[0]?.fence ?? 0, reason: 'test' })).toEqual(
    {
      state: 'absent',
      reason: 'evicted',
      detail: 'test',
    },
  )
})
