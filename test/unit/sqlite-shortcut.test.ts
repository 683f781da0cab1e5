import { afterEach, describe, expect, test } from 'vitest'
import type { Claim, LockDriver, Request, Standing } from '../../src/core/driver.ts'
import { sqlite } from '../../src/drivers/sqlite.ts'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

const claim: Claim = {
  id: 'a',
  key: 'default/named:x',
  mode: 'exclusive',
  priority: 0,
  wait: true,
  ttlMs: 1000,
  graceMs: 0,
  runner: { id: 'runner', incarnation: 'one', host: 'here', pid: 1, client: 'client' },
}
const release = (id: string): Request => ({ op: 'release', key: claim.key, id })
const harmless: Request = { op: 'release', key: 'default/named:nobody', id: 'none' }

/** A store whose time is told, and its drivers. */
async function setUp() {
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-shortcut-'))
  folders.push(folder)
  const time = { now: 1000 }
  const clock = { now: () => time.now, wall: () => 1_700_000_000_000 + time.now }
  const driver = () => sqlite({ file: join(folder, 'locks.sqlite'), surroundings: { clock } })
  return { time, driver }
}

/** One request by itself may go the short way; with another beside it, it never does. */
async function bothWays(
  play: (send: (request: Request) => Promise<Standing>, time: { now: number }) => Promise<unknown>,
) {
  const outcomes: unknown[] = []
  for (const beside of [[], [harmless]]) {
    const { time, driver } = await setUp()
    const opened: LockDriver = driver()
    const send = async (request: Request) => {
      const [standing = nothing] = await opened.send([request, ...beside])
      return standing
    }
    outcomes.push(await play(send, time))
    await opened.close()
  }
  return outcomes
}

const nothing: Standing = { state: 'unknown', error: 'no answer' }
const told = (standing: Standing) =>
  standing.state === 'held' ? { ...standing, fence: standing.fence % 1000 } : standing

describe('the short way answers as the long one', () => {
  test.each<[string, Partial<Claim>]>([
    ['a plain claim', {}],
    ['a claim that does not wait', { wait: false }],
    ['a claim with a longest hold', { maxHoldMs: 300 }],
    ['a detached claim', { detached: true }],
    ['a permit', { mode: 'shared', limit: 2 }],
    ['a range', { range: { start: 0, end: 5 } }],
    ['a conversion of nothing', { replaces: 'nobody' }],
    ['a claim that would evict', { evict: 'all' }],
  ])('to %s on an idle key', async (_what, changes) => {
    const [short, long] = await bothWays(async (send) =>
      told(await send({ op: 'claim', claim: { ...claim, ...changes } })),
    )
    expect(short).toEqual(long)
  })

  test('to a release, one that came too late, and one of somebody else’s', async () => {
    const [short, long] = await bothWays(async (send, time) => {
      const story: Standing[] = []
      for (const id of ['a', 'b', 'c']) {
        story.push(await send({ op: 'claim', claim: { ...claim, id } }))
        if (id === 'b') time.now += 2000
        story.push(await send(release(id === 'c' ? 'not c' : id)))
      }
      return story.map(told)
    })
    expect(short).toEqual(long)
  })
})

test('fences grow by one whichever way a grant went', async () => {
  const { driver } = await setUp()
  const one = driver()
  const fences: number[] = []
  for (let round = 0; round < 20; round += 1) {
    const id = `id-${round}`
    const others = round % 3 === 0 ? [harmless] : []
    const [standing] = await one.send([{ op: 'claim', claim: { ...claim, id } }, ...others])
    if (standing?.state === 'held') fences.push(standing.fence)
    await one.send([release(id)])
  }
  const [first = 0] = fences
  expect(fences).toEqual(Array.from({ length: 20 }, (_, index) => first + index))
  await one.close()
})

test('a release that somebody waits for goes the long way, and the waiter is granted', async () => {
  const { driver } = await setUp()
  const [one, other] = [driver(), driver()]
  await one.send([{ op: 'claim', claim }])
  expect(await other.send([{ op: 'claim', claim: { ...claim, id: 'b' } }])).toMatchObject([{ state: 'waiting' }])
  await one.send([release('a')])
  expect(await other.send([{ op: 'renew', key: claim.key, id: 'b', ttlMs: 1000 }])).toMatchObject([{ state: 'held' }])
  await one.close()
  await other.close()
})
