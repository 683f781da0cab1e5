import { describe, expect, test } from 'vitest'
import { Heartbeats, newestReports, type HeartbeatReport } from '../../src/api/heartbeat/heartbeats.ts'
import type { Request, ClaimStatus } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { openLocks } from '../../src/api/create-locks.ts'
import type { RenewedClaim } from '../../src/core/client/claim-runtime.ts'
import { SimulatedProcess } from '../../src/testing/simulation/simulated-process.ts'
import { World } from '../../src/testing/simulation/world.ts'
import { around } from '../support/around.ts'

const held: ClaimStatus = { state: 'held', fence: 7, ttlMs: 30_000 }
const unknown: ClaimStatus = { state: 'unknown', error: new Error('no answer') }

function answer(id: string, at: number, status: ClaimStatus): HeartbeatReport {
  return { id, key: 'k', sent: { at, ttlMs: 30_000 }, status }
}

describe('of the reports that come all at once after a block', () => {
  test('only the newest answer of each claim counts', () => {
    const [old, other, newest] = [answer('a', 1, held), answer('b', 2, held), answer('a', 3, held)]
    expect(newestReports([old, other, newest])).toEqual([other, newest])
  })

  test('all that was not answered counts, since it may be carried out yet', () => {
    const [failed, again, newest] = [answer('a', 1, unknown), answer('a', 2, unknown), answer('a', 3, held)]
    expect(newestReports([failed, again, newest])).toEqual([failed, again, newest])
  })

  test('news counts beside answers, and neither hides the other', () => {
    const asked: HeartbeatReport = { id: 'a', key: 'k', status: { ...held, leaving: 'preempted' } }
    const [first, newest] = [answer('a', 1, held), answer('a', 2, held)]
    expect(newestReports([first, asked, newest])).toEqual([asked, newest])
    expect(newestReports([first, asked])).toEqual([first, asked])
  })

  test('what is settled stays behind what was not answered of it', () => {
    const reports = [answer('a', 1, unknown), { id: 'a', settledMs: 30_000 }]
    expect(newestReports(reports)).toEqual(reports)
  })
})

describe('whoever renews for a client', () => {
  function bench() {
    const world = new World()
    const store = memory({ clock: { now: () => world.now, wall: () => 1_700_000_000_000 + world.now } })
    const sent: Request[] = []
    const reports: HeartbeatReport[] = []
    const answers: ((status: ClaimStatus) => void)[] = []
    const driver = around(store, {
      send(requests) {
        sent.push(...requests)
        return new Promise((resolve) => answers.push((status) => resolve([status])))
      },
    })
    const heartbeats = new Heartbeats(driver, world.environment(), (report) => reports.push(report))
    const watch = (ttlMs: number): void =>
      heartbeats.watch({ key: 'k', id: 'a', ttlMs, heartbeatMs: ttlMs / 3, sentAt: world.now })
    return { world, sent, reports, answers, heartbeats, watch }
  }

  test('says at once that a ttl is settled if nothing of it is under way', async () => {
    const { reports, heartbeats, watch, world } = bench()
    watch(3000)
    watch(6000)
    expect(reports).toEqual([{ id: 'a', settledMs: 3000 }])
    heartbeats.unwatch('a')
    expect(reports).toEqual([
      { id: 'a', settledMs: 3000 },
      { id: 'a', settledMs: 6000 },
    ])
    await heartbeats.close()
    expect(world.timers).toBe(0)
  })

  test('renews no more what it was told to leave', async () => {
    const { sent, heartbeats, watch, world } = bench()
    watch(3000)
    heartbeats.unwatch('a')
    await world.pass(10_000)
    expect(sent).toEqual([])
    await heartbeats.close()
  })

  test('asks again soon after a renewal that was not answered', async () => {
    const { sent, answers, heartbeats, watch, world } = bench()
    watch(3000)
    await world.pass(1000)
    answers[0]?.(unknown)
    await world.pass(150)
    expect(sent).toHaveLength(2)
    answers[1]?.(held)
    await heartbeats.close()
  })

  test.each([
    ['answered', held, 0],
    ['known to be unanswered', unknown, 1],
  ])('says that a ttl is settled when its renewal is %s', async (_how, status, told) => {
    const { world, sent, reports, answers, heartbeats, watch } = bench()
    watch(3000)
    await world.pass(1000)
    expect(sent).toMatchObject([{ op: 'renew', ttlMs: 3000 }])
    watch(6000)
    expect(reports).toEqual([])
    answers[0]?.(status)
    await world.pass(0)
    expect(reports).toHaveLength(told + 1)
    expect(reports.at(-1)).toEqual({ id: 'a', settledMs: 3000 })
    await heartbeats.close()
    expect(world.timers).toBe(0)
  })

  test('says since when the claim has been held without a break', async () => {
    const { reports, answers, heartbeats, watch, world } = bench()
    const since = (): unknown => reports.flatMap((report) => ('since' in report ? [report.since] : []))
    watch(3000)
    await world.pass(1000)
    answers[0]?.({ ...held, ttlMs: 3000 })
    await world.pass(1000)
    answers[1]?.({ ...held, ttlMs: 3000 })
    await world.pass(0)
    expect(since()).toEqual([0, 0])
    await world.pass(1000)
    // Answered behind the end that the last one gave: somebody else may have held it meanwhile.
    await world.pass(4000)
    answers[2]?.({ ...held, ttlMs: 3000 })
    await world.pass(0)
    expect(since()).toEqual([0, 0, 7000])
    // What that one gave was over, too, when it was answered; from the next one on there is no break.
    for (const number of [3, 4]) {
      await world.pass(1000)
      answers[number]?.({ ...held, ttlMs: 3000 })
      await world.pass(0)
    }
    expect(since()).toEqual([0, 0, 7000, 8000, 8000])
    await heartbeats.close()
  })
})

test('a client has its heartbeat thread keep up with a ttl that has become shorter', async () => {
  const world = new World()
  const watched: RenewedClaim[] = []
  const locks = await openLocks({
    driver: memory({ clock: { now: () => world.now, wall: () => 1_700_000_000_000 + world.now } }),
    environment: new SimulatedProcess(world, 1).environment,
    runnerName: undefined,
    startThread: async () => ({
      watch: (claim) => void watched.push(claim),
      unwatch: () => {},
      drain: () => {},
      close: async () => {},
    }),
  })
  const lease = await locks.acquire('k', { ttl: '30s', heartbeat: '10s' })
  await lease.renew('3s')
  await lease.renew('30s')
  expect(watched.map(({ ttlMs, heartbeatMs }) => [ttlMs, heartbeatMs])).toEqual([
    [30_000, 10_000],
    [3000, 1000],
    [30_000, 10_000],
  ])
  void locks.close()
  await world.pass(6000)
})

describe('a client that was blocked for longer than its lease lasts', () => {
  async function blocked(reported: (sentAt: number) => Omit<Extract<HeartbeatReport, { key: string }>, 'id' | 'key'>) {
    const world = new World()
    const process = new SimulatedProcess(world, 1)
    let notify: (report: HeartbeatReport) => void = () => {}
    const thread = { watch: () => {}, unwatch: () => {}, drain: () => {}, close: async () => {} }
    const locks = await openLocks({
      driver: memory({ clock: { now: () => world.now, wall: () => 1_700_000_000_000 + world.now } }),
      environment: process.environment,
      runnerName: undefined,
      startThread: async (report) => {
        notify = report
        return thread
      },
    })
    const lease = await locks.acquire('k', { ttl: 1000 })
    const { id, key } = lease.toJSON()
    process.stopFor(2000)
    // What the thread reported meanwhile is read before anything else.
    thread.drain = () => notify({ id, key, ...reported(world.now) })
    await world.pass(2001)
    const { held: isHeld } = lease
    void locks.close()
    await world.pass(6000)
    return isHeld
  }

  const sentAt = 1900
  const renewal = { sent: { at: sentAt, ttlMs: 1000 }, status: { ...held, ttlMs: 1000 } }

  test('holds on to what its heartbeat thread has renewed without a break', async () => {
    expect(await blocked(() => ({ ...renewal, since: 0 }))).toBe(true)
  })

  test('has lost what its heartbeat thread got back only after a break', async () => {
    expect(await blocked(() => ({ ...renewal, since: 1910 }))).toBe(false)
  })
})
